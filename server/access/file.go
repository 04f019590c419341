package access

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A file of users has a line for each, in the form
//
//	user NAME RULE RULE …
//
// with spaces between the words and without quotes or comments. Passwords stand in it as their
// SHA-256. The file is Redis's, and Redis can read it as long as no rule is about databases.

// Load replaces all users by those in a file, or none if something is wrong in it, and returns
// those who aren't what they were. Messages call the file by the name that is shown. Who stays is
// the same User. The default user is what he is without the file if it doesn't name him.
func (u *Users) Load(path, shown string) (changed []*User, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("Error loading ACLs, opening file '%s': %s", shown, reason(err)) //nolint:staticcheck // Redis's text
	}
	return u.replace(shown, string(content))
}

// reason is an error of the system in C's words.
func reason(err error) string {
	var system *fs.PathError
	if !errors.As(err, &system) {
		return err.Error()
	}
	text := system.Err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// replace makes the users whom a file names the only ones.
func (u *Users) replace(shown, content string) (changed []*User, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := userFile{name: shown, author: u.authorNow(), users: map[string]*Rules{}}
	f.read(content)
	if len(f.problems) > 0 {
		return nil, errors.New(strings.Join(f.problems, "") + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
	}
	f.users[DefaultName] = cmp.Or(f.users[DefaultName], u.builtIn())
	for name, user := range u.byName {
		if f.users[name] == nil {
			delete(u.byName, name)
			u.end(user)
			changed = append(changed, user)
		}
	}
	for name, rules := range f.users {
		user := u.byName[name]
		if user == nil {
			u.add(name, rules)
			continue
		}
		user.take(rules, u.limited)
		changed = append(changed, user)
	}
	return changed, nil
}

// userFile is a file that is being read.
type userFile struct {
	name     string
	author   *author
	users    map[string]*Rules
	problems []string // in Redis's words
}

func (f *userFile) problem(format string, values ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, values...))
}

func (f *userFile) read(content string) {
	for i, line := range strings.Split(content, "\n") {
		if line = strings.Trim(line, " \t\r\n"); line != "" {
			f.readLine(i+1, strings.Split(line, " "))
		}
	}
}

func (f *userFile) readLine(number int, words []string) {
	switch {
	case words[0] != "user" || len(words) < 2:
		f.problem("%s:%d should start with user keyword followed by the username. ", f.name, number)
		return
	case hasSpaces(words[1]):
		f.problem("'%s:%d: username '%s' contains invalid characters. ", f.name, number, words[1])
		return
	case f.users[words[1]] != nil:
		f.problem("WARNING: Duplicate user '%s' found on line %d. ", words[1], number)
		return
	}
	rules := f.author.blank()
	f.users[words[1]] = rules
	joined, unmatched := joinSelectors(words[2:])
	if unmatched != "" {
		f.problem("%s:%d: Unmatched parenthesis in selector definition.", f.name, number)
	}
	f.apply(number, rules, joined)
}

// apply applies a line's rules. Of those that are wrong each unknown name is told, and the first
// other mistake.
func (f *userFile) apply(number int, rules *Rules, words []string) {
	told := false
	for _, word := range words {
		word = strings.Trim(word, "\t\r\n")
		err := f.author.apply(rules, word)
		switch {
		case err == nil:
		case errors.Is(err, errUnknown):
			f.problem("%s:%d: Error in applying operation '%s': %s. ", f.name, number, word, err)
		case !told:
			f.problem("%s:%d: %s. ", f.name, number, err)
			told = true
		}
	}
}

// Save writes all users to a file, which is replaced in one step. Of several that save at once none
// replaces what is newer.
func (u *Users) Save(path string) error {
	u.saving.Lock()
	defer u.saving.Unlock()
	var content strings.Builder
	for _, line := range u.Lines() {
		content.WriteString("user " + line + "\n")
	}
	mode := fs.FileMode(0o600) // of a file that isn't there yet
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	path, err := followed(path)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails once it has been renamed
	_, err = file.WriteString(content.String())
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// followed is what a symbolic link points at, so that it is replaced and not the link.
func followed(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return target, err
}
