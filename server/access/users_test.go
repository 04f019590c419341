package access

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestManyPatterns: patterns are known again when there are many of them, too, and only while rules
// are applied that is remembered.
func TestManyPatterns(t *testing.T) {
	const many = 1000
	users := testUsers()
	var rules []string
	for i := range many {
		rules = append(rules, "%R~key:"+strconv.Itoa(i), "&channel:"+strconv.Itoa(i))
	}
	for i := range many {
		rules = append(rules, "%W~key:"+strconv.Itoa(i), "&channel:"+strconv.Itoa(i))
	}
	user := set(t, users, "u", strings.Join(rules, " "))
	check := func(what string, keys int) {
		t.Helper()
		own := &user.Rules().selectors[0]
		if len(own.keys) != keys || len(own.channels) != many || own.keyPlaces != nil || own.channelPlaces != nil {
			t.Errorf("%s: %d patterns of keys, %d of channels", what, len(own.keys), len(own.channels))
		}
		for i := range own.keys {
			if want := "key:" + strconv.Itoa(i); own.keys[i].text != want || own.keys[i].allows != Read|Write {
				t.Fatalf("%s: pattern %d is %v, not %s", what, i, own.keys[i], want)
			}
		}
	}
	check("twice each", many)
	set(t, users, "u", "~key:7 ~key:999 &channel:3")
	check("some again", many)
	set(t, users, "u", "~a resetkeys "+strings.Join(rules[:2*many], " ")+" resetkeys ~key:0 ~key:1 ~key:0")
	check("after a reset", 2)
}

// TestPatternsAreLookedUp: with many patterns there is something to look the next one up in.
func TestPatternsAreLookedUp(t *testing.T) {
	rules := testUsers().authorNow().blank()
	own := &rules.selectors[0]
	for i := range 1000 {
		for _, err := range []error{own.addKeys("~key:" + strconv.Itoa(i)), own.addChannels("channel:" + strconv.Itoa(i))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if i >= manyPatterns && (len(own.keyPlaces) != i+1 || len(own.channelPlaces) != i+1) {
			t.Fatalf("of %d patterns %d and %d can be looked up", i+1, len(own.keyPlaces), len(own.channelPlaces))
		}
	}
}

// TestSavesAtOnce: who has saved finds in the file what was said before.
func TestSavesAtOnce(t *testing.T) {
	users, path := testUsers(), filepath.Join(t.TempDir(), "users.acl")
	for round := range 100 {
		var savers sync.WaitGroup
		for saver := range 4 {
			savers.Go(func() {
				if _, err := users.Set(fmt.Sprint("user", saver), []string{"~round:" + strconv.Itoa(round)}); err != nil {
					t.Error(err)
				}
				if err := users.Save(path); err != nil {
					t.Error(err)
				}
			})
		}
		savers.Wait()
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, line := range users.Lines() {
			want = append(want, "user "+line)
		}
		if !slices.Equal(strings.Split(strings.TrimSpace(string(content)), "\n"), want) {
			t.Fatalf("after round %d the file has\n%s", round, content)
		}
	}
}
