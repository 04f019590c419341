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

// TestSavesAtOnce: when several have saved at once, the file has the users as they are.
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
