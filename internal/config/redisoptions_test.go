package config

import (
	"slices"
	"testing"
)

func TestWithoutEffect(t *testing.T) {
	c, _ := loaded(t, "rdbcompression no\nhz 20\nio-threads 4\nRDBcompression yes\n")
	if err := c.SetFlag("lazyfree-lazy-expire", "yes"); err != nil {
		t.Fatal(err)
	}
	if got, want := c.WithoutEffect(), []string{"rdbcompression", "lazyfree-lazy-expire", "io-threads"}; !slices.Equal(got, want) {
		t.Errorf("given without effect: %q, want %q", got, want)
	}
	if err := c.SetFlag("io-threads", "129"); err == nil {
		t.Error("a value that Redis refuses was taken")
	}
	var told []string
	c.OnChangeWithoutEffect(func(name string) { told = append(told, name) })
	set(t, c, "rdbcompression", "yes")
	set(t, c, "rdbcompression", "no")
	set(t, c, "hz", "30")
	if !slices.Equal(told, []string{"rdbcompression"}) {
		t.Errorf("told of %q", told)
	}
	const want = "CONFIG SET failed (possibly related to argument 'io-threads') - can't set immutable config"
	if err := c.Set([][2]string{{"io-threads", "2"}}); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if names := New().WithoutEffect(); len(names) > 0 {
		t.Errorf("nothing was given but %q", names)
	}
}

// TestSaveGathers: lines and flags add to each other, until an empty one.
func TestSaveGathers(t *testing.T) {
	for content, want := range map[string]string{
		"":                                     "",
		"save 3600 1 300 100\nsave 60 10000\n": "3600 1 300 100 60 10000",
		"save 3600 1\nsave \"\"\n":             "",
		"save 3600 1\nsave\n":                  "",
		"save 3600 1\nsave \"\"\nsave 60 10\n": "60 10",
	} {
		c, path := loaded(t, content)
		if got := c.lookup("save").String(); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
		rewritten(t, c, path)
		again := New()
		if err := again.Load(path); err != nil || again.lookup("save").String() != want {
			t.Errorf("%q is rewritten as %q (%v)", content, readFile(t, path), err)
		}
	}
	c, _ := loaded(t, "save 3600 1\n")
	if err := c.SetFlag("save", "60 10"); err != nil || c.lookup("save").String() != "3600 1 60 10" {
		t.Errorf("with a flag: %q (%v)", c.lookup("save"), err)
	}
	set(t, c, "save", "5 1")
	if got := c.lookup("save").String(); got != "5 1" {
		t.Errorf("after CONFIG SET: %q", got)
	}
}
