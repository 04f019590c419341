package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"kedis/internal/shebang"
)

// Libraries of functions go along when all keys of all databases do.

// Libraries says that libraries of functions are moved.
func (f *Filter) Libraries() bool { return f.AllKeys() && len(f.Databases) == 0 }

// libraryDatabase stands for where libraries are, among what the target had.
const libraryDatabase = -1

// Why libraries are passed over.
const (
	skippedLibraries = "libraries of functions: only keys were chosen"
	lacksFunctions   = "libraries of functions: the target is older than Redis 7.0"
)

// firstFunctions is the version of Redis that brought functions.
const firstFunctions = 7

// LoadLibrary writes a library of functions in place of the one of that name.
func (t *Target) LoadLibrary(source []byte) error {
	if err := t.failed(); err != nil {
		return err
	}
	if t.facts.major() < firstFunctions {
		t.skip(lacksFunctions)
		return nil
	}
	if own, err := t.keepsLibrary(source); own || err != nil {
		return err
	}
	return t.callFunction([]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), source)
}

// keepsLibrary says whether the target's own library of that name stays, or fails if there must be
// none.
func (t *Target) keepsLibrary(source []byte) (bool, error) {
	head, err := shebang.ParseLibrary(source)
	if err != nil {
		return false, failure(ExitSource, "the library of functions %.60q …: %w", source, err)
	}
	c := t.options.Conflicts
	switch {
	case !c.has(libraryDatabase, []byte(head.Name)):
		return false, nil
	case c.Fail:
		return false, failure(ExitConflict, "the target has a library of functions %q already (--on-conflict fail)", head.Name)
	}
	t.skip("libraries of functions that the target had")
	return true, nil
}

// callFunction sends a command to the target, or to each master of a cluster.
func (t *Target) callFunction(words ...[]byte) error {
	arguments := make([]any, len(words))
	for i, word := range words {
		arguments[i] = word
	}
	call := func(ctx context.Context, client *redis.Client) error {
		if err := client.Do(ctx, arguments...).Err(); err != nil {
			return fmt.Errorf("%s: %w", brief(words), err)
		}
		return nil
	}
	return targetSide.explain(t.options.address(), t.eachServer(call))
}

// surveyLibraries lists the libraries that the target has.
func (t *Target) surveyLibraries() error {
	libraries, err := librariesOf(t.ctx, t.client)
	if err != nil {
		return targetSide.explain(t.options.address(), err)
	}
	for name := range libraries {
		t.options.Conflicts.own[ownKey{libraryDatabase, name}] = struct{}{}
	}
	return nil
}

// clearLibraries removes the libraries of the target that it didn't have before.
func (t *Target) clearLibraries() error {
	libraries, err := librariesOf(t.ctx, t.client)
	if err != nil {
		return targetSide.explain(t.options.address(), err)
	}
	for name := range libraries {
		if t.options.Conflicts.has(libraryDatabase, []byte(name)) {
			continue
		}
		if err := t.callFunction([]byte("FUNCTION"), []byte("DELETE"), []byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// librariesOf lists a server's libraries by name, with their sources; none of a server that has no
// functions.
func librariesOf(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	list, err := client.FunctionList(ctx, redis.FunctionListQuery{WithCode: true}).Result()
	var reply redis.Error
	if errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "ERR unknown command") {
		return nil, nil
	}
	libraries := map[string]string{}
	for _, library := range list {
		libraries[library.Name] = library.Code
	}
	return libraries, err
}

// functionChange is what a FUNCTION of a stream or a file is at the target, which may have what it
// brings; nil: it changes nothing.
func functionChange(args [][]byte) [][]byte {
	if len(args) < 2 {
		return nil
	}
	switch strings.ToUpper(string(args[1])) {
	case "LOAD":
		return [][]byte{args[0], args[1], []byte("REPLACE"), args[len(args)-1]}
	case "RESTORE":
		if len(args) == 3 || bytes.EqualFold(args[len(args)-1], []byte("APPEND")) {
			return [][]byte{args[0], args[1], args[2], []byte("REPLACE")}
		}
		return args
	case "DELETE", "FLUSH":
		return args
	}
	return nil
}

// addFunction puts a change of libraries into the group.
func (s *stream) addFunction(args [][]byte) error {
	switch {
	case !s.Filter.Libraries():
		s.Progress.Skip(skippedLibraries)
		return nil
	case s.target.facts.major() < firstFunctions:
		s.Progress.Skip(lacksFunctions)
		return nil
	}
	words := cloneWords(functionChange(args))
	if len(words) == 0 {
		return nil
	}
	kept, err := s.keepsFunction(words)
	if kept || err != nil {
		return err
	}
	s.group = append(s.group, Command{Args: words})
	return nil
}

// keepsFunction says whether a change is of a library that the target had.
func (s *stream) keepsFunction(words [][]byte) (bool, error) {
	c := s.target.options.Conflicts
	switch what := strings.ToUpper(string(words[1])); {
	case c == nil:
		return false, nil
	case what == "LOAD":
		return s.target.keepsLibrary(words[len(words)-1])
	case what == "DELETE" && len(words) > 2: // others the target refuses
		return c.has(libraryDatabase, words[2]), nil
	}
	for key := range c.own {
		if key.database == libraryDatabase {
			return false, failure(ExitUnsupported, "%s changes libraries of functions that the target had", brief(words))
		}
	}
	return false, nil
}

// isFunction says that a command changes libraries of functions, which a cluster has on each
// master.
func (c *Command) isFunction() bool {
	return len(c.Keys) == 0 && bytes.EqualFold(c.Args[0], []byte("FUNCTION"))
}

// applyFunction carries a change of libraries out on each master of a cluster, behind all that came
// before. What was deleted before the program was killed may be gone already.
func (t *Target) applyFunction(c *Command) error {
	if err := t.Flush(); err != nil {
		return err
	}
	err := t.callFunction(c.Args...)
	if err != nil && bytes.EqualFold(c.Args[1], []byte("DELETE")) && strings.Contains(err.Error(), "Library not found") {
		return nil
	}
	return err
}

// function is a change of libraries in an AOF.
func (r *fileReader) function(words [][]byte) (*Command, error) {
	if !r.Filter.Libraries() {
		r.Progress.Skip(skippedLibraries)
		return nil, nil
	}
	args := functionChange(words)
	if args == nil {
		return nil, failure(ExitUnsupported, "%s is no change of functions", brief(words))
	}
	last := args[len(args)-1]
	if bytes.EqualFold(args[1], []byte("FLUSH")) || bytes.EqualFold(args[1], []byte("RESTORE")) && bytes.EqualFold(last, []byte("FLUSH")) {
		switch r.Flush {
		case "apply":
		case "skip":
			r.Progress.Skip("FUNCTION FLUSH")
			return nil, nil
		default:
			return nil, failure(ExitUnsupported,
				"%s would remove the target's libraries, too: --on-flush apply carries it out there, --on-flush skip passes it over", brief(words))
		}
	}
	return &Command{Args: args}, nil
}

// library moves a library of functions.
func (r *fileReader) library(source []byte) error {
	if !r.Filter.Libraries() {
		r.Progress.Skip(skippedLibraries)
		return nil
	}
	return r.to.LoadLibrary(source)
}

// compareLibraries compares the libraries of functions of both sides.
func (v *verifier) compareLibraries() error {
	if !v.Filter.Libraries() {
		return nil
	}
	ours, err := librariesOf(v.ctx, v.from.on(0))
	if err != nil {
		return sourceSide.explain(v.From.address(), err)
	}
	theirs, err := librariesOf(v.ctx, v.to.on(0))
	if err != nil {
		return targetSide.explain(v.To.address(), err)
	}
	var names []string
	for name := range ours {
		names = append(names, name)
	}
	for name := range theirs {
		names = append(names, name)
	}
	slices.Sort(names)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range slices.Compact(names) {
		v.compared++
		our, ok := ours[name]
		their, there := theirs[name]
		what := ""
		switch {
		case !there:
			what = "is missing at the target"
		case !ok:
			what = "is at the target only"
		case our != their:
			what = "has another source"
		}
		if what != "" {
			v.different++
			v.Report(Difference{Library: true, Key: []byte(name), What: what})
		}
	}
	return nil
}
