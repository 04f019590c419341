// Conversion between replies in RESP and values of Lua, as Redis documents it.
#include "interpreter.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A reader goes over a reply, which is complete: the host has made it.
struct reader {
	lua_State *L;
	const char *at, *end;
	unsigned steps;
};

static const char *line(struct reader *r, size_t *length) {
	const char *begin = r->at, *end = memchr(begin, '\r', (size_t)(r->end - begin));
	if (end == NULL)
		luaL_error(r->L, "a reply without an end");
	*length = (size_t)(end - begin);
	r->at = end + 2;
	return begin;
}

static void read_value(struct reader *r);

// wrap makes the value on top the only field of a table.
static void wrap(lua_State *L, const char *name) {
	lua_createtable(L, 0, 1);
	lua_insert(L, -2);
	lua_setfield(L, -2, name);
}

static void read_array(struct reader *r, long long count) {
	lua_State *L = r->L;
	if (count < 0) {
		lua_pushboolean(L, 0);
		return;
	}
	lua_createtable(L, count < INT_MAX ? (int)count : 0, 0);
	for (long long i = 1; i <= count; i++) {
		read_value(r);
		lua_rawseti(L, -2, (int)i);
	}
}

static void read_map(struct reader *r, long long count) {
	lua_State *L = r->L;
	lua_newtable(L);
	for (; count > 0; count--) {
		read_value(r);
		read_value(r);
		lua_rawset(L, -3);
	}
	wrap(L, "map");
}

static void read_set(struct reader *r, long long count) {
	lua_State *L = r->L;
	lua_newtable(L);
	for (; count > 0; count--) {
		read_value(r);
		lua_pushboolean(L, 1);
		lua_rawset(L, -3);
	}
	wrap(L, "set");
}

static void read_text(struct reader *r, char kind, long long length) {
	lua_State *L = r->L;
	if (length < 0) {
		lua_pushboolean(L, 0);
		return;
	}
	const char *text = r->at;
	r->at += length + 2;
	note_bytes(L, (size_t)length);
	if (kind == '$') {
		lua_pushlstring(L, text, (size_t)length);
		return;
	}
	lua_createtable(L, 0, 2);
	lua_pushlstring(L, text + 4, (size_t)length - 4);
	lua_setfield(L, -2, "string");
	lua_pushlstring(L, text, 3);
	lua_setfield(L, -2, "format");
	wrap(L, "verbatim_string");
}

static void read_error(lua_State *L, const char *text, size_t length) {
	lua_createtable(L, 0, 2);
	lua_pushlstring(L, text, length);
	lua_setfield(L, -2, "err");
	lua_pushboolean(L, 1);
	lua_setfield(L, -2, MET_FIELD);
}

static void read_value(struct reader *r) {
	lua_State *L = r->L;
	if (++r->steps % STEPS_PER_POLL == 0)
		poll_run(L);
	luaL_checkstack(L, 5, "a reply is nested too deeply");
	char kind = *r->at++;
	size_t length;
	const char *text = line(r, &length);
	switch (kind) {
	case ':': lua_pushnumber(L, (lua_Number)strtoll(text, NULL, 10)); break;
	case '$':
	case '=': read_text(r, kind, strtoll(text, NULL, 10)); break;
	case '+':
		lua_pushlstring(L, text, length);
		wrap(L, "ok");
		break;
	case '-': read_error(L, text, length); break;
	case '*':
	case '>': read_array(r, strtoll(text, NULL, 10)); break;
	case '%': read_map(r, strtoll(text, NULL, 10)); break;
	case '~': read_set(r, strtoll(text, NULL, 10)); break;
	case '_': lua_pushnil(L); break;
	case '#': lua_pushboolean(L, *text == 't'); break;
	case ',':
		lua_pushnumber(L, strtod(text, NULL));
		wrap(L, "double");
		break;
	case '(':
		lua_pushlstring(L, text, length);
		wrap(L, "big_number");
		break;
	default: luaL_error(L, "a reply of an unknown kind");
	}
}

void push_reply(lua_State *L, const char *reply, size_t length) {
	struct reader r = {L, reply, reply + length, 0};
	read_value(&r);
}

// A writer appends to output.
struct writer {
	lua_State *L;
	struct bytes *out;
	int client, script; // the protocols of the client, and of the script
	int met; // the value as a whole has the field of an error that a call has met
	unsigned steps;
};

// add_text writes a text, which may be long.
static void add_text(struct writer *w, const char *text, size_t length) {
	note_bytes(w->L, length);
	add(w->L, w->out, text, length);
}

// add_one_line writes the rest of a line: a text whose line ends become spaces.
static void add_one_line(struct writer *w, const char *text, size_t length) {
	size_t from = w->out->length;
	add_text(w, text, length);
	for (size_t i = from; i < w->out->length; i++)
		if (w->out->data[i] == '\r' || w->out->data[i] == '\n')
			w->out->data[i] = ' ';
	add(w->L, w->out, "\r\n", 2);
}

static void add_line(struct writer *w, char kind, const char *text, size_t length) {
	add(w->L, w->out, &kind, 1);
	add_one_line(w, text, length);
}

// add_header writes the line that begins a value: its kind, and a number.
static void add_header(struct writer *w, char kind, long long n) {
	char text[32], *end = text + sizeof text, *at = end;
	unsigned long long rest = n < 0 ? 0 - (unsigned long long)n : (unsigned long long)n;
	*--at = '\n';
	*--at = '\r';
	do
		*--at = (char)('0' + rest % 10);
	while ((rest /= 10) > 0);
	if (n < 0)
		*--at = '-';
	*--at = kind;
	add(w->L, w->out, at, (size_t)(end - at));
}

static void add_bulk(struct writer *w, const char *text, size_t length) {
	add_header(w, '$', (long long)length);
	add_text(w, text, length);
	add(w->L, w->out, "\r\n", 2);
}

static void add_null(struct writer *w) {
	if (w->client == 3)
		add(w->L, w->out, "_\r\n", 3);
	else
		add_header(w, '$', -1);
}

static void add_integer(struct writer *w, lua_Number n) {
	add_header(w, ':', n >= -9223372036854775808.0 && n < 9223372036854775808.0 ? (long long)n : LLONG_MIN);
}

static void add_boolean(struct writer *w, int v) {
	if (w->script == 3)
		add_format(w->L, w->out, w->client == 3 ? "#%c\r\n" : ":%c\r\n", w->client == 3 ? (v ? 't' : 'f') : (v ? '1' : '0'));
	else if (v)
		add_header(w, ':', 1);
	else
		add_null(w);
}

static void add_double(struct writer *w, double d) {
	char text[64];
	int length = isnan(d) ? snprintf(text, sizeof text, "nan") : snprintf(text, sizeof text, "%.17g", d);
	if (w->client == 3)
		add_format(w->L, w->out, ",%s\r\n", text);
	else
		add_bulk(w, text, (size_t)length);
}

// field pushes a field of the table on top, if it is of a type.
static int field(lua_State *L, const char *name, int type) {
	lua_pushstring(L, name);
	lua_rawget(L, -2);
	if (lua_type(L, -1) == type)
		return 1;
	lua_pop(L, 1);
	return 0;
}

static void write_value(struct writer *w);

// write_pairs writes the table on top as a map, or its keys as a set.
static void write_pairs(struct writer *w, int keys_only) {
	lua_State *L = w->L;
	size_t count = 0;
	for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
		count++;
	if (w->client == 3)
		add_header(w, keys_only ? '~' : '%', (long long)count);
	else
		add_header(w, '*', (long long)(keys_only ? count : 2 * count));
	for (lua_pushnil(L); lua_next(L, -2);) {
		if (keys_only)
			lua_pop(L, 1);
		lua_pushvalue(L, keys_only ? -1 : -2);
		write_value(w);
		if (!keys_only)
			write_value(w);
	}
}

static void write_array(struct writer *w) {
	lua_State *L = w->L;
	int count = 0;
	for (;; count++) {
		lua_rawgeti(L, -1, count + 1);
		int last = lua_isnil(L, -1);
		lua_pop(L, 1);
		if (last)
			break;
	}
	add_header(w, '*', count);
	for (int i = 1; i <= count; i++) {
		lua_rawgeti(L, -1, i);
		write_value(w);
	}
}

static int write_verbatim(struct writer *w) {
	lua_State *L = w->L;
	if (!field(L, "verbatim_string", LUA_TTABLE))
		return 0;
	if (!field(L, "string", LUA_TSTRING)) {
		lua_pop(L, 1);
		return 0;
	}
	lua_insert(L, -2);
	if (!field(L, "format", LUA_TSTRING)) {
		lua_pop(L, 2);
		return 0;
	}
	size_t length;
	const char *text = lua_tolstring(L, -3, &length);
	if (w->client == 3) {
		add_format(L, w->out, "=%zu\r\n%-3.3s:", length + 4, lua_tostring(L, -1));
		add_text(w, text, length);
		add(L, w->out, "\r\n", 2);
	} else {
		add_bulk(w, text, length);
	}
	lua_pop(L, 3);
	return 1;
}

static void write_table(struct writer *w) {
	lua_State *L = w->L;
	size_t length;
	if (w->out->length == 0 && field(L, MET_FIELD, LUA_TBOOLEAN)) {
		w->met = lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	if (field(L, "err", LUA_TSTRING)) {
		const char *text = lua_tolstring(L, -1, &length);
		while (length > 0 && (text[length - 1] == '\r' || text[length - 1] == '\n'))
			length--;
		add_line(w, '-', text, length);
	} else if (field(L, "ok", LUA_TSTRING)) {
		const char *text = lua_tolstring(L, -1, &length);
		add_line(w, '+', text, length);
	} else if (field(L, "double", LUA_TNUMBER)) {
		add_double(w, lua_tonumber(L, -1));
	} else if (field(L, "big_number", LUA_TSTRING)) {
		const char *text = lua_tolstring(L, -1, &length);
		if (w->client == 3) {
			add_line(w, '(', text, length);
		} else {
			add_header(w, '$', (long long)length);
			add_one_line(w, text, length);
		}
	} else if (write_verbatim(w)) {
		return;
	} else if (field(L, "map", LUA_TTABLE)) {
		write_pairs(w, 0);
	} else if (field(L, "set", LUA_TTABLE)) {
		write_pairs(w, 1);
	} else {
		write_array(w);
		return;
	}
	lua_pop(L, 1);
}

// write_value writes the value on top, and pops it.
static void write_value(struct writer *w) {
	lua_State *L = w->L;
	if (++w->steps % STEPS_PER_POLL == 0)
		poll_run(L);
	// Four are needed. Redis has one more on the stack, and both end at the same level so.
	if (!lua_checkstack(L, 5)) {
		add_format(L, w->out, "-ERR reached lua stack limit\r\n");
		lua_pop(L, 1);
		return;
	}
	size_t length;
	const char *text;
	switch (lua_type(L, -1)) {
	case LUA_TSTRING:
		text = lua_tolstring(L, -1, &length);
		add_bulk(w, text, length);
		break;
	case LUA_TNUMBER: add_integer(w, lua_tonumber(L, -1)); break;
	case LUA_TBOOLEAN: add_boolean(w, lua_toboolean(L, -1)); break;
	case LUA_TTABLE: write_table(w); break;
	default: add_null(w);
	}
	lua_pop(L, 1);
}

void write_reply(lua_State *L, struct interpreter *in) {
	struct writer w = {L, &in->output, in->client, in->protocol, 0, 0};
	write_value(&w);
	in->met = w.met;
}
