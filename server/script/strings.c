#define _GNU_SOURCE
// The functions of strings that may run for long, with the results of Lua 5.1: they are interrupted when the run is to end, and their
// recursion is bounded.
#include "interpreter.h"

#include <ctype.h>
#include <string.h>

enum {
	DEEPEST = 4000, // how deep the matcher calls itself: some hundred KB of stack
	OPEN = -1, // length of a capture that has no end yet
	PLACE = -2, // length of a capture of a position
};

struct capture {
	const char *start;
	ptrdiff_t length;
};

// A match is one attempt to find a pattern. As in Lua 5.1 a pattern ends at its first zero byte.
struct match {
	lua_State *L;
	const char *begin, *end;
	int captures, depth;
	size_t steps; // since the last poll
	struct capture capture[LUA_MAXCAPTURES];
};

static void step(struct match *m, size_t count) {
	m->steps += count;
	if (m->steps >= STEPS_PER_POLL) {
		m->steps = 0;
		poll_run(m->L);
	}
}

// note_steps counts what is left of the steps as bytes: so many short matches are polled, too.
static void note_steps(struct match *m) {
	note_bytes(m->L, m->steps * (BYTES_PER_POLL / STEPS_PER_POLL));
	m->steps = 0;
}

static int in_class(int c, int letter) {
	int is;
	switch (tolower(letter)) {
	case 'a': is = isalpha(c); break;
	case 'c': is = iscntrl(c); break;
	case 'd': is = isdigit(c); break;
	case 'l': is = islower(c); break;
	case 'p': is = ispunct(c); break;
	case 's': is = isspace(c); break;
	case 'u': is = isupper(c); break;
	case 'w': is = isalnum(c); break;
	case 'x': is = isxdigit(c); break;
	case 'z': is = c == 0; break;
	default: return letter == c;
	}
	return isupper(letter) ? !is : !!is;
}

// item_end returns what stands behind the single item that begins at p.
static const char *item_end(struct match *m, const char *p) {
	char first = *p++;
	if (first == '%') {
		if (*p == 0)
			luaL_error(m->L, "malformed pattern (ends with '%%')");
		return p + 1;
	}
	if (first != '[')
		return p;
	if (*p == '^')
		p++;
	do { // the first character may be a ]
		if (*p == 0)
			luaL_error(m->L, "malformed pattern (missing ']')");
		if (*p++ == '%' && *p != 0)
			p++;
	} while (*p != ']');
	return p + 1;
}

// in_set tells whether a set has a character; last is its closing bracket.
static int in_set(int c, const char *set, const char *last) {
	int found = 1;
	if (set[1] == '^') {
		found = 0;
		set++;
	}
	while (++set < last) {
		if (*set == '%') {
			if (in_class(c, (unsigned char)*++set))
				return found;
		} else if (set[1] == '-' && set + 2 < last) {
			if ((unsigned char)set[0] <= c && c <= (unsigned char)set[2])
				return found;
			set += 2;
		} else if ((unsigned char)*set == c) {
			return found;
		}
	}
	return !found;
}

// set_steps is how many more steps it takes to find the end of a set, and a character in it: it may
// be as long as a text.
static size_t set_steps(const char *set, const char *behind) { return (size_t)(behind - set) / 16; }

// fits is inline since it is called for each byte.
static inline int fits(struct match *m, const char *s, const char *p, const char *behind) {
	step(m, 1);
	if (s >= m->end)
		return 0;
	int c = (unsigned char)*s;
	switch (*p) {
	case '.': return 1;
	case '%': return in_class(c, (unsigned char)p[1]);
	case '[': step(m, set_steps(p, behind)); return in_set(c, p, behind - 1);
	default: return (unsigned char)*p == c;
	}
}

static const char *match_here(struct match *m, const char *s, const char *p);

static const char *match_balanced(struct match *m, const char *s, const char *p) {
	if (p[0] == 0 || p[1] == 0)
		luaL_error(m->L, "unbalanced pattern");
	if (s >= m->end || *s != p[0])
		return NULL;
	int open = 1;
	while (++s < m->end) {
		step(m, 1);
		if (*s == p[1]) {
			if (--open == 0)
				return s + 1;
		} else if (*s == p[0]) {
			open++;
		}
	}
	return NULL;
}

static const char *match_most(struct match *m, const char *s, const char *p, const char *behind) {
	ptrdiff_t count = 0;
	while (fits(m, s + count, p, behind))
		count++;
	for (; count >= 0; count--) {
		const char *end = match_here(m, s + count, behind + 1);
		if (end != NULL)
			return end;
	}
	return NULL;
}

static const char *match_least(struct match *m, const char *s, const char *p, const char *behind) {
	for (;;) {
		const char *end = match_here(m, s, behind + 1);
		if (end != NULL)
			return end;
		if (!fits(m, s, p, behind))
			return NULL;
		s++;
	}
}

static const char *open_capture(struct match *m, const char *s, const char *p, ptrdiff_t length) {
	int number = m->captures;
	if (number >= LUA_MAXCAPTURES)
		luaL_error(m->L, "too many captures");
	m->capture[number] = (struct capture){s, length};
	m->captures = number + 1;
	const char *end = match_here(m, s, p);
	if (end == NULL)
		m->captures--;
	return end;
}

static const char *close_capture(struct match *m, const char *s, const char *p) {
	int number = m->captures - 1;
	while (number >= 0 && m->capture[number].length != OPEN)
		number--;
	if (number < 0)
		luaL_error(m->L, "invalid pattern capture");
	m->capture[number].length = s - m->capture[number].start;
	const char *end = match_here(m, s, p);
	if (end == NULL)
		m->capture[number].length = OPEN;
	return end;
}

static const char *match_again(struct match *m, const char *s, int digit) {
	int number = digit - '1';
	if (number < 0 || number >= m->captures || m->capture[number].length == OPEN)
		luaL_error(m->L, "invalid capture index");
	ptrdiff_t length = m->capture[number].length;
	if (length < 0 || m->end - s < length)
		return NULL;
	step(m, 1 + (size_t)length / 1024);
	return memcmp(m->capture[number].start, s, (size_t)length) == 0 ? s + length : NULL;
}

static int at_frontier(struct match *m, const char *s, const char *p, const char *behind) {
	step(m, 1 + set_steps(p, behind));
	int before = s == m->begin ? 0 : (unsigned char)s[-1];
	int next = s == m->end ? 0 : (unsigned char)*s;
	return !in_set(before, p, behind - 1) && in_set(next, p, behind - 1);
}

// match_special matches what begins with a % and is no class. 1: matched, up to *s and *p; 0: it doesn't; -1: it is a class.
static int match_special(struct match *m, const char **s, const char **p) {
	switch ((*p)[1]) {
	case 'b':
		*s = match_balanced(m, *s, *p + 2);
		*p += 4;
		return *s != NULL;
	case 'f': {
		*p += 2;
		if (**p != '[')
			luaL_error(m->L, "missing '[' after '%%f' in pattern");
		const char *behind = item_end(m, *p);
		int at = at_frontier(m, *s, *p, behind);
		*p = behind;
		return at;
	}
	case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
		*s = match_again(m, *s, (*p)[1]);
		*p += 2;
		return *s != NULL;
	}
	return -1;
}

static const char *match_items(struct match *m, const char *s, const char *p) {
	for (;;) {
		switch (*p) {
		case 0:
			return s;
		case '(':
			return p[1] == ')' ? open_capture(m, s, p + 2, PLACE) : open_capture(m, s, p + 1, OPEN);
		case ')':
			return close_capture(m, s, p + 1);
		case '$':
			if (p[1] == 0)
				return s == m->end ? s : NULL;
			break;
		case '%': {
			int special = match_special(m, &s, &p);
			if (special == 0)
				return NULL;
			if (special > 0)
				continue;
		}
		}
		const char *behind = item_end(m, p), *end;
		switch (*behind) {
		case '?':
			if (fits(m, s, p, behind) && (end = match_here(m, s + 1, behind + 1)) != NULL)
				return end;
			p = behind + 1;
			break;
		case '*':
			return match_most(m, s, p, behind);
		case '+':
			return fits(m, s, p, behind) ? match_most(m, s + 1, p, behind) : NULL;
		case '-':
			return match_least(m, s, p, behind);
		default:
			if (!fits(m, s, p, behind))
				return NULL;
			s++;
			p = behind;
		}
	}
}

// match_here matches what is left of a pattern at s, and returns where it ends.
static const char *match_here(struct match *m, const char *s, const char *p) {
	if (++m->depth > DEEPEST)
		luaL_error(m->L, "pattern too complex");
	const char *end = match_items(m, s, p);
	m->depth--;
	return end;
}

// attempt matches a pattern at s, anew.
static const char *attempt(struct match *m, const char *s, const char *p) {
	step(m, 1);
	m->captures = m->depth = 0;
	return match_here(m, s, p);
}

// search finds the first match at *s or behind it. It moves *s there, and returns where it ends.
static const char *search(struct match *m, const char **s, const char *p, int anchored) {
	const char *end = attempt(m, *s, p);
	while (end == NULL && !anchored && *s < m->end)
		end = attempt(m, ++*s, p);
	note_steps(m);
	return end;
}

static void push_capture(struct match *m, int number, const char *s, const char *end) {
	if (number >= m->captures) {
		if (number != 0)
			luaL_error(m->L, "invalid capture index");
		lua_pushlstring(m->L, s, (size_t)(end - s));
		return;
	}
	struct capture c = m->capture[number];
	if (c.length == OPEN)
		luaL_error(m->L, "unfinished capture");
	if (c.length == PLACE)
		lua_pushinteger(m->L, c.start - m->begin + 1);
	else
		lua_pushlstring(m->L, c.start, (size_t)c.length);
}

// push_captures pushes all captures, or the whole match if there are none and s is given.
static int push_captures(struct match *m, const char *s, const char *end) {
	int count = m->captures == 0 && s != NULL ? 1 : m->captures;
	luaL_checkstack(m->L, count, "too many captures");
	for (int i = 0; i < count; i++)
		push_capture(m, i, s, end);
	return count;
}

static const char *find_text(const char *s, size_t length, const char *text, size_t wanted) { return memmem(s, length, text, wanted); }

static ptrdiff_t place(lua_State *L, int index, ptrdiff_t initial, size_t length) {
	ptrdiff_t at = luaL_optinteger(L, index, initial);
	if (at < 0)
		at += (ptrdiff_t)length + 1;
	return at > 0 ? at : 0;
}

static int find_or_match(lua_State *L, int find) {
	size_t length, pattern_length;
	const char *s = luaL_checklstring(L, 1, &length), *p = luaL_checklstring(L, 2, &pattern_length);
	ptrdiff_t start = place(L, 3, 1, length) - 1;
	if (start < 0)
		start = 0;
	else if ((size_t)start > length)
		start = (ptrdiff_t)length;
	if (find && (lua_toboolean(L, 4) || strpbrk(p, "^$*+?.([%-") == NULL)) {
		const char *at = find_text(s + start, length - (size_t)start, p, pattern_length);
		if (at == NULL) {
			lua_pushnil(L);
			return 1;
		}
		lua_pushinteger(L, at - s + 1);
		lua_pushinteger(L, at - s + (ptrdiff_t)pattern_length);
		return 2;
	}
	struct match m = {.L = L, .begin = s, .end = s + length};
	int anchored = *p == '^';
	const char *at = s + start;
	const char *end = search(&m, &at, p + anchored, anchored);
	if (end == NULL) {
		lua_pushnil(L);
		return 1;
	}
	if (!find)
		return push_captures(&m, at, end);
	lua_pushinteger(L, at - s + 1);
	lua_pushinteger(L, end - s);
	return push_captures(&m, NULL, NULL) + 2;
}

static int string_find(lua_State *L) { return find_or_match(L, 1); }
static int string_match(lua_State *L) { return find_or_match(L, 0); }

// next_match is the iterator of gmatch: its upvalues are the string, the pattern and where to go on.
static int next_match(lua_State *L) {
	size_t length;
	const char *s = lua_tolstring(L, lua_upvalueindex(1), &length), *p = lua_tostring(L, lua_upvalueindex(2));
	struct match m = {.L = L, .begin = s, .end = s + length};
	const char *at = s + lua_tointeger(L, lua_upvalueindex(3));
	const char *end = at <= m.end ? search(&m, &at, p, 0) : NULL;
	if (end == NULL)
		return 0;
	lua_pushinteger(L, (end == at ? end + 1 : end) - s);
	lua_replace(L, lua_upvalueindex(3));
	return push_captures(&m, at, end);
}

static int string_gmatch(lua_State *L) {
	luaL_checkstring(L, 1);
	luaL_checkstring(L, 2);
	lua_settop(L, 2);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, next_match, 3);
	return 1;
}

// add_replacement adds the text of a replacement, with captures for its %1.
static void add_replacement(struct match *m, luaL_Buffer *b, const char *s, const char *end) {
	size_t length;
	const char *text = lua_tolstring(m->L, 3, &length);
	for (size_t i = 0; i < length; i++) {
		if (text[i] != '%') {
			luaL_addchar(b, text[i]);
			continue;
		}
		i++;
		unsigned char c = (unsigned char)text[i]; // behind the last character there is a zero
		if (!isdigit(c)) {
			luaL_addchar(b, (char)c);
		} else if (c == '0') {
			luaL_addlstring(b, s, (size_t)(end - s));
		} else {
			push_capture(m, c - '1', s, end);
			luaL_addvalue(b);
		}
	}
}

static void add_match(struct match *m, luaL_Buffer *b, const char *s, const char *end) {
	lua_State *L = m->L;
	switch (lua_type(L, 3)) {
	case LUA_TFUNCTION:
		lua_pushvalue(L, 3);
		lua_call(L, push_captures(m, s, end), 1);
		break;
	case LUA_TTABLE:
		push_capture(m, 0, s, end);
		lua_gettable(L, 3);
		break;
	default:
		add_replacement(m, b, s, end);
		return;
	}
	if (!lua_toboolean(L, -1)) {
		lua_pop(L, 1);
		lua_pushlstring(L, s, (size_t)(end - s));
	} else if (!lua_isstring(L, -1)) {
		luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
	}
	luaL_addvalue(b);
}

static int string_gsub(lua_State *L) {
	size_t length;
	const char *s = luaL_checklstring(L, 1, &length), *p = luaL_checkstring(L, 2), *begin = s;
	int type = lua_type(L, 3);
	int most = luaL_optint(L, 4, (int)length + 1);
	luaL_argcheck(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
		"string/function/table expected");
	int anchored = *p == '^';
	int count = 0;
	struct match m = {.L = L, .begin = begin, .end = begin + length};
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	while (count < most) {
		const char *end = attempt(&m, s, p + anchored);
		if (end != NULL) {
			count++;
			add_match(&m, &b, s, end);
		}
		if (end != NULL && end > s)
			s = end;
		else if (s < m.end)
			luaL_addchar(&b, *s++);
		else
			break;
		if (anchored)
			break;
	}
	note_steps(&m);
	luaL_addlstring(&b, s, (size_t)(m.end - s));
	luaL_pushresult(&b);
	lua_pushinteger(L, count);
	return 2;
}

static int string_rep(lua_State *L) {
	size_t length;
	const char *s = luaL_checklstring(L, 1, &length);
	int count = luaL_checkint(L, 2);
	size_t whole = count > 0 ? length * (size_t)count : 0; // a string is shorter than 2^32 bytes
	char *room = lua_newuserdata(L, whole);
	for (size_t done = 0, more; done < whole; done += more) { // what is there is repeated, so this takes few steps
		more = done == 0 ? length : done < whole - done ? done : whole - done;
		memcpy(room + done, done == 0 ? s : room, more);
		note_bytes(L, more);
	}
	lua_pushlstring(L, room, whole);
	return 1;
}

void open_strings(lua_State *L) {
	static const luaL_Reg functions[] = {{"find", string_find}, {"match", string_match}, {"gmatch", string_gmatch},
		{"gfind", string_gmatch}, {"gsub", string_gsub}, {"rep", string_rep}, {NULL, NULL}};
	lua_getglobal(L, "string");
	luaL_register(L, NULL, functions);
	lua_pop(L, 1);
}
