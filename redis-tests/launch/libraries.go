package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/resp"
)

// Libraries is ListLibraries for a test.
func Libraries(t testing.TB, c *resp.Connection) string {
	t.Helper()
	libraries, err := ListLibraries(c)
	if err != nil {
		t.Fatal(err)
	}
	return libraries
}

// ListLibraries tells all of a server's libraries of functions, with their sources, in an order of
// its own: servers whose libraries are the same tell the same.
func ListLibraries(c *resp.Connection) (string, error) {
	list, err := c.Must("FUNCTION", "LIST", "WITHCODE")
	if err != nil {
		return "", err
	}
	var libraries []string
	for _, library := range list.Elements {
		var functions []string
		for _, function := range library.Elements[5].Elements {
			functions = append(functions, function.String())
		}
		slices.Sort(functions)
		libraries = append(libraries, fmt.Sprintf("%s %s %q", library.Elements[1], functions, library.Elements[7].Text))
	}
	slices.Sort(libraries)
	return strings.Join(libraries, "\n"), nil
}
