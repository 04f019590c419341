package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestREADMENamesEachLineOnce(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## The bench\n")
	_, table, _ := strings.Cut(section, "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for line := range strings.Lines(table) {
		named = append(named, strings.Fields(strings.Split(line, "|")[2])...)
	}
	var lines []string
	for _, w := range allLines() {
		lines = append(lines, w.name)
		if w.target.at(16) == 0 || w.requests == 0 {
			t.Errorf("%s has no target, or no requests", w.name)
		}
	}
	slices.Sort(lines)
	slices.Sort(named)
	if !slices.Equal(lines, named) {
		t.Errorf("the bench has %q\nREADME names %q", lines, named)
	}
}
