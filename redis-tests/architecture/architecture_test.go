// Package architecture asserts, from the sources, which package may import which: imports go down
// only (docs/architecture.md). It reads the files itself, so that no result is cached that a
// changed file contradicts.
package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "kedis"

// layers are the packages from the top down. One imports those of lower layers only; "x/*" is all
// packages right below x.
var layers = [][]string{
	{"."},
	{"commandline"},
	{"server"},
	{"server/datadir"},
	{"server/command", "replication", "migrate"},
	{"server/observe"},
	{"server/execute", "server/enginetest"},
	{"storage", "binlog", "server/access"},
	{"storage/engine"},
	{"storage/*", "lock", "ttl"},
	{"server/script"}, // knows nothing of the server; its tests know replies
	{"internal/*", "server/lolwut", "server/quota", "server/tracking"},
}

// neighbours are the imports within a layer.
var neighbours = map[string][]string{
	"storage/rdb":        {"storage/intset", "storage/listpack"}, // whose bytes stand in it
	"storage/fieldtimes": {"storage/rdb"},
	"internal/config":    {"internal/glob", "internal/keyevent", "internal/number", "internal/quotes"},
	"internal/psync":     {"internal/resp"},
	"internal/resp":      {"internal/buffer", "internal/number", "internal/quotes"},
	"internal/shebang":   {"internal/quotes"}, // whose words an inline request has
}

// strangers are packages of lower layers, with all below them, that a package must not know all the
// same.
var strangers = map[string][]string{
	"server":      {"server/datadir"}, // serves an engine, wherever its data is
	"replication": {"server"},         // knows the store and the log, and no server
	"migrate":     {"server"},
	"server/access": { // knows names of commands, and patterns
		"storage", "lock", "ttl", "server/lolwut", "internal/config", "internal/resp", "internal/metrics"},
	"storage/engine": { // knows records, and no data type
		"storage/bits", "storage/digest", "storage/geo", "storage/hyperloglog", "storage/intset", "storage/lcs", "storage/listpack", "storage/rdb", "storage/sortorder"},
}

// only says who may use a library that is to stay behind one package.
var only = map[string]string{
	"github.com/linxGnu/grocksdb":  "storage/rocks",
	"github.com/panjf2000/gnet/v2": "server",
}

func layerOf(pkg string) int {
	return slices.IndexFunc(layers, func(layer []string) bool {
		return slices.ContainsFunc(layer, func(pattern string) bool { matched, _ := path.Match(pattern, pkg); return matched })
	})
}

// testers are packages for tests, which may import whatever the packages that they help do.
var testers = []string{"internal/oracle", "server/enginetest"}

// testImports are packages that only the tests of a package import, since they need the real thing.
var testImports = map[string]string{"server/execute": "server/command", "server": "server/datadir"}

func isTests(pkg string) bool { return strings.HasPrefix(pkg, "redis-tests/") }

// knows reports whether a package may know another one of a lower layer.
func knows(importer, own string) bool {
	return !slices.ContainsFunc(strangers[importer], func(tree string) bool { return own == tree || strings.HasPrefix(own, tree+"/") })
}

// violation says what is wrong about an import, by a test or not; nothing if it is right.
func violation(importer, imported string, test bool) string {
	own, ours := strings.CutPrefix(imported, module+"/")
	switch {
	case !ours:
		if owner := only[imported]; owner != "" && owner != importer {
			return "only " + owner + " may import it"
		}
		return ""
	case isTests(importer):
		if !isTests(own) {
			return "redis-tests drive the built binary, and import nothing of ours"
		}
		return ""
	case test && (slices.Contains(testers, own) || isTests(own) || own == importer):
		return ""
	case test && testImports[importer] == own:
		return ""
	case slices.Contains(testers, own) || isTests(own):
		return "is for tests only"
	case !knows(importer, own):
		return importer + " must not know it"
	}
	from, to := layerOf(importer), layerOf(own)
	switch {
	case from < 0 || to < 0:
		return "a package that stands in no layer"
	case from < to, slices.Contains(neighbours[importer], own):
		return ""
	}
	return "imports go down only"
}

// each calls f for every import of every Go file of the module.
func each(t *testing.T, f func(pkg, file, imported string)) {
	t.Helper()
	eachFile(t, func(pkg, file string) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			f(pkg, file, imported)
		}
	})
}

// eachFile calls f for every Go file of the module.
func eachFile(t *testing.T, f func(pkg, file string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != root && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "data", "node_modules"}, entry.Name())) {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		f(filepath.ToSlash(pkg), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsGoDown(t *testing.T) {
	seen := map[string]bool{}
	each(t, func(pkg, file, imported string) {
		seen[pkg] = true
		if wrong := violation(pkg, imported, strings.HasSuffix(file, "_test.go")); wrong != "" {
			t.Errorf("%s imports %s: %s", file, imported, wrong)
		}
	})
	for _, pkg := range []string{".", "commandline", "server/command", "server/execute", "server/observe", "storage/rocks", "redis-tests/resp"} {
		if !seen[pkg] {
			t.Errorf("no imports of %s were found", pkg)
		}
	}
}

func TestTheRulesBite(t *testing.T) {
	for _, bad := range []struct {
		importer, imported string
		test               bool
	}{
		{"lock", "kedis/storage", false},
		{"storage", "kedis/binlog", false},
		{"storage/engine", "kedis/storage", false},
		{"storage/engine", "kedis/storage", true},
		{"storage/engine", "kedis/storage/listpack", false},
		{"storage/cache", "kedis/storage/engine", false},
		{"storage", "kedis/server/command", true},
		{"server/command", "kedis/replication", false},
		{"server/command", "kedis/server", false},
		{"server", "kedis/server/datadir", false},
		{"server/datadir", "kedis/server", false},
		{"server/datadir", "kedis/server", true},
		{"server/command", "kedis/server/datadir", true},
		{"server/execute", "kedis/server/command", false},
		{"server/execute", "kedis/server/observe", false},
		{"server/observe", "kedis/server/command", false},
		{"server/observe", "kedis/server/command", true},
		{"server/execute", "kedis/server/enginetest", false},
		{"storage", "kedis/server/execute", false},
		{"server/access", "kedis/server/execute", false},
		{"server/access", "kedis/storage/layout", false},
		{"storage", "kedis/server/access", false},
		{"replication", "kedis/server/execute", false},
		{"replication", "kedis/server/command", false},
		{"internal/resp", "kedis/internal/config", false},
		{"storage", "kedis/internal/oracle", false},
		{"server", "kedis/redis-tests/resp", false},
		{"redis-tests/crash", "kedis/binlog", true},
		{"server/command", "github.com/linxGnu/grocksdb", false},
		{"storage", "github.com/panjf2000/gnet/v2", false},
		{"somewhere", "kedis/storage", false},
	} {
		if violation(bad.importer, bad.imported, bad.test) == "" {
			t.Errorf("%s may import %s", bad.importer, bad.imported)
		}
	}
	for _, good := range [][2]string{{"server", "kedis/storage"}, {"server", "kedis/server/execute"}, {"server/command", "kedis/server/execute"},
		{"commandline", "kedis/server/datadir"}, {"server/datadir", "kedis/server/command"}, {"server/datadir", "kedis/replication"},
		{"server/command", "kedis/server/observe"}, {"server/observe", "kedis/server/execute"}, {"storage", "kedis/storage/engine"},
		{"storage/engine", "kedis/storage/rocks"}, {"storage/rdb", "kedis/storage/intset"}, {"storage/rocks", "github.com/linxGnu/grocksdb"}} {
		if wrong := violation(good[0], good[1], false); wrong != "" {
			t.Errorf("%s can't import %s: %s", good[0], good[1], wrong)
		}
	}
}

// typeNames are the data types in package layout. The engine asks layout.Kinds and Type.Elements
// instead.
var typeNames = []string{"String", "Hash", "List", "Set", "ZSet"}

// namesOfTypes lists where a file names a data type.
func namesOfTypes(t *testing.T, file string, source any) (names []string) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok && slices.Contains(typeNames, selector.Sel.Name) {
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "layout" {
				names = append(names, fset.Position(n.Pos()).String())
			}
		}
		return true
	})
	return names
}

func TestTheEngineNamesNoType(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "storage", "engine", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, place := range namesOfTypes(t, file, nil) {
			t.Errorf("%s names a data type", place)
		}
	}
	if bad := "package engine\nvar list = layout.List\n"; len(namesOfTypes(t, "bad.go", bad)) != 1 {
		t.Error("the rule doesn't bite")
	}
}
