package architecture

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// statement is what a package comment says of imports, up to the end of the sentence.
var statement = regexp.MustCompile(`\b(?:imports|may import) .*?(?:\. |$)`)

// statements returns them by package.
func statements(t *testing.T) map[string]string {
	t.Helper()
	stated := map[string]string{}
	eachFile(t, func(pkg, file string) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		comment := strings.Join(strings.Fields(parsed.Doc.Text()), " ")
		if !strings.HasSuffix(file, "_test.go") {
			stated[pkg] += strings.Join(statement.FindAllString(comment, -1), " ")
		}
	})
	return stated
}

// names reports whether a statement names a package: by its path or with its neighbours, as in
// "internal packages", "other packages of storage" and "its neighbours in redis-tests".
func names(stated, pkg string) bool {
	if words := strings.FieldsFunc(stated, func(r rune) bool { return strings.ContainsRune(" ,.;:", r) }); slices.Contains(words, pkg) {
		return true
	}
	tree, _, _ := strings.Cut(pkg, "/")
	return slices.ContainsFunc([]string{tree + " packages", "packages of " + tree, "neighbours in " + tree, "import everything"},
		func(all string) bool { return strings.Contains(stated, all) })
}

// TestPackageCommentsNameImports: a package whose comment says what it imports imports no other
// package of ours.
func TestPackageCommentsNameImports(t *testing.T) {
	stated := statements(t)
	each(t, func(pkg, file, imported string) {
		own, ours := strings.CutPrefix(imported, module+"/")
		if ours && stated[pkg] != "" && !strings.HasSuffix(file, "_test.go") && !names(stated[pkg], own) {
			t.Errorf("%s imports %s, and its package's comment says %q", file, own, stated[pkg])
		}
	})
	for pkg, imported := range map[string]string{"storage": "lock", "storage/rdb": "storage/layout", "storage/layout": "storage/rdb",
		"replication": "storage/engine", "redis-tests/launch": "redis-tests/seed"} {
		if stated[pkg] == "" || names(stated[pkg], imported) {
			t.Errorf("the comment of %s may name %s: %q", pkg, imported, stated[pkg])
		}
	}
}

// TestEachPackageIsAPart compares the packages with the parts that docs/architecture.md lists.
func TestEachPackageIsAPart(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "\n```\n")
	list, _, _ = strings.Cut(list, "\n```\n")
	parts, packages := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "  ")
		named := strings.Split(line, ", ") // as in "storage/listpack, intset"
		parts[path.Clean(named[0])] = true
		for _, name := range named[1:] {
			parts[path.Join(path.Dir(named[0]), name)] = true
		}
	}
	eachFile(t, func(pkg, _ string) {
		if isTests(pkg) {
			pkg = "redis-tests"
		}
		packages[pkg] = true
		if pkg != "." && !parts[pkg] {
			t.Errorf("package %s isn't listed", pkg)
			parts[pkg] = true // is said once
		}
	})
	for part := range parts {
		if !packages[part] {
			t.Errorf("there is no package %s", part)
		}
	}
}
