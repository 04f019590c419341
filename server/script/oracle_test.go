package script_test

import (
	"bytes"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"kedis/internal/oracle"
	"kedis/internal/resp"
	"kedis/server/script"
)

// programs are programs in Lua, one on each line, that call no command: what they do is the
// interpreter's, the sandbox's and the libraries'.
//
//go:embed testdata/programs.lua.txt
var programs string

// noHost is for programs that call nothing.
type noHost struct{}

func (noHost) Room(bytes, words int) ([]byte, [][]byte) {
	return make([]byte, bytes), make([][]byte, words)
}
func (noHost) Call([][]byte, int) ([]byte, bool) { return []byte("-ERR nothing is called\r\n"), true }
func (noHost) May([][]byte) (may, known bool)    { return true, true }
func (noHost) Log(int, string)                   {}

func TestPrograms(t *testing.T) {
	server := oracle.Start(t)
	state, err := script.Open(script.Options{Memory: 64 << 20, Version: "7.0.15", Number: 0x07000f})
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	for program := range strings.Lines(programs) {
		program = strings.TrimSuffix(program, "\n")
		server.Do("SCRIPT", "FLUSH") // and what a script has set of cjson with it
		want := show(server.Do("EVAL", program, "0"))
		if got := evaluate(t, state, program); got != want {
			t.Errorf("%s\n  is     %s\n  should be %s", program, got, want)
		}
	}
}

// show writes a reply so that it can be compared.
func show(reply any) string {
	switch reply := reply.(type) {
	case []any:
		words := make([]string, len(reply))
		for i := range reply {
			words[i] = show(reply[i])
		}
		return "[" + strings.Join(words, " ") + "]"
	case oracle.Error:
		return "-" + string(reply)
	}
	return fmt.Sprintf("%q", fmt.Sprint(reply))
}

func shaOf(program string) string {
	sum := sha1.Sum([]byte(program))
	return hex.EncodeToString(sum[:])
}

// evaluate answers a program as EVAL does.
func evaluate(t *testing.T, state *script.State, program string) string {
	t.Helper()
	sha := shaOf(program)
	compiled, err := state.Compile(sha, []byte(program))
	if err != nil {
		return "-ERR Error compiling script (new function): " + err.Error()
	}
	result := state.Run(noHost{}, &script.Run{Script: compiled, Protocol: 2})
	switch result.End {
	case script.Done:
		reply, err := resp.NewReader(bytes.NewReader(result.Output), 1<<30).ReadReply()
		if err != nil {
			t.Fatalf("%s: %q: %v", program, result.Output, err)
		}
		return show(plain(reply))
	case script.Failed:
		text := string(result.Output) + " script: " + sha
		if result.Source != "" {
			text += fmt.Sprintf(", on %s:%d.", result.Source, result.Line)
		}
		return "-" + strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	}
	return fmt.Sprint("end ", result.End)
}

// plain is a reply as package oracle has it.
func plain(reply resp.Reply) any {
	switch {
	case reply.Null:
		return nil
	case reply.Kind == resp.KindError:
		return oracle.Error(reply.Text)
	case reply.Kind == resp.KindInteger:
		return reply.Integer
	case reply.Elements != nil:
		elements := make([]any, len(reply.Elements))
		for i := range elements {
			elements[i] = plain(reply.Elements[i])
		}
		return elements
	}
	return string(reply.Text)
}
