// The library cjson: JSON and values of Lua, with the results of the one in Redis. What a script sets holds until it ends.
#include "interpreter.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The encoder and the decoder call themselves for what is nested: whatever depth a script allows, no deeper than this.
enum { DEEPEST = 4000 };

struct encoder {
	lua_State *L;
	struct bytes *out;
	struct json_options *options;
	unsigned steps;
};

static void add_text(struct encoder *e, const char *text) { add(e->L, e->out, text, strlen(text)); }

// escape_of returns what stands for a character in a string of JSON; NULL: itself.
static const char *escape_of(unsigned char c, char unicode[8]) {
	switch (c) {
	case '"': return "\\\"";
	case '\\': return "\\\\";
	case '/': return "\\/";
	case '\b': return "\\b";
	case '\t': return "\\t";
	case '\n': return "\\n";
	case '\f': return "\\f";
	case '\r': return "\\r";
	}
	if (c >= 32 && c != 127)
		return NULL;
	snprintf(unicode, 8, "\\u%04x", c);
	return unicode;
}

static void encode_string(struct encoder *e, const char *text, size_t length) {
	add_text(e, "\"");
	size_t plain = 0;
	for (size_t i = 0; i < length; i++) {
		char unicode[8];
		const char *escape = escape_of((unsigned char)text[i], unicode);
		if (escape == NULL)
			continue;
		add(e->L, e->out, text + plain, i - plain);
		add_text(e, escape);
		plain = i + 1;
	}
	add(e->L, e->out, text + plain, length - plain);
	add_text(e, "\"");
}

static void refuse_value(struct encoder *e, int index, const char *why) {
	luaL_error(e->L, "Cannot serialise %s: %s", luaL_typename(e->L, index), why);
}

// encode_whole writes a number that has no fraction and few enough digits, which printf takes long for; 0: it isn't one.
static int encode_whole(struct encoder *e, lua_Number n) {
	static const lua_Number powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
	int digits = e->options->precision < 14 ? e->options->precision : 14;
	if (digits < 1 || !(fabs(n) < powers[digits]) || n != floor(n) || (n == 0 && signbit(n)))
		return 0;
	char text[16], *at = text + sizeof text;
	int64_t rest = (int64_t)fabs(n);
	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (n < 0)
		*--at = '-';
	add(e->L, e->out, at, (size_t)(text + sizeof text - at));
	return 1;
}

static void encode_number(struct encoder *e, int index) {
	lua_Number n = lua_tonumber(e->L, index);
	if (isnan(n) || isinf(n)) {
		switch (e->options->encode_invalid) {
		case INVALID_OFF: refuse_value(e, index, "must not be NaN or Inf"); return;
		case INVALID_NULL: add_text(e, "null"); return;
		}
		add_text(e, isnan(n) ? "nan" : n > 0 ? "inf" : "-inf");
		return;
	}
	if (!encode_whole(e, n))
		add_format(e->L, e->out, "%.*g", e->options->precision, n);
}

// array_length returns how long the table on top is as an array; -1: it is an object.
static lua_Number array_length(struct encoder *e) {
	lua_State *L = e->L;
	const struct json_options *o = e->options;
	lua_Number most = 0, count = 0;
	for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
		lua_Number key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
		if (key <= 0 || key != floor(key)) {
			lua_pop(L, 2);
			return -1;
		}
		if (key > most)
			most = key <= INT_MAX ? key : INT_MIN; // as in Redis, which has a C integer for it: no array is so long
		count++;
	}
	if (o->sparse_ratio > 0 && most > count * o->sparse_ratio && most > o->sparse_safe) {
		if (!o->sparse_convert)
			refuse_value(e, -1, "excessively sparse array");
		return -1;
	}
	return most;
}

static void encode_value(struct encoder *e, int depth);

static void encode_array(struct encoder *e, int depth, lua_Number length) {
	add_text(e, "[");
	for (int i = 1; i <= length; i++) {
		if (i > 1)
			add_text(e, ",");
		lua_rawgeti(e->L, -1, i);
		encode_value(e, depth);
		lua_pop(e->L, 1);
	}
	add_text(e, "]");
}

static void encode_object(struct encoder *e, int depth) {
	lua_State *L = e->L;
	int first = 1;
	add_text(e, "{");
	for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
		if (!first)
			add_text(e, ",");
		first = 0;
		size_t length;
		const char *text;
		switch (lua_type(L, -2)) {
		case LUA_TNUMBER:
			add_text(e, "\"");
			encode_number(e, -2);
			add_text(e, "\":");
			break;
		case LUA_TSTRING:
			text = lua_tolstring(L, -2, &length);
			encode_string(e, text, length);
			add_text(e, ":");
			break;
		default: refuse_value(e, -2, "table key must be a number or string");
		}
		encode_value(e, depth);
	}
	add_text(e, "}");
}

static void encode_table(struct encoder *e, int depth) {
	if (++depth > e->options->encode_depth || depth > DEEPEST || !lua_checkstack(e->L, 3))
		luaL_error(e->L, "Cannot serialise, excessive nesting (%d)", depth);
	reveal(e->L, lua_gettop(e->L));
	lua_Number length = array_length(e);
	if (length > 0)
		encode_array(e, depth, length);
	else
		encode_object(e, depth);
}

// encode_value encodes the value on top.
static void encode_value(struct encoder *e, int depth) {
	lua_State *L = e->L;
	if (++e->steps % 1024 == 0)
		poll_run(L);
	size_t length;
	const char *text;
	switch (lua_type(L, -1)) {
	case LUA_TSTRING:
		text = lua_tolstring(L, -1, &length);
		encode_string(e, text, length);
		return;
	case LUA_TNUMBER: encode_number(e, -1); return;
	case LUA_TBOOLEAN: add_text(e, lua_toboolean(L, -1) ? "true" : "false"); return;
	case LUA_TTABLE: encode_table(e, depth); return;
	case LUA_TNIL: add_text(e, "null"); return;
	case LUA_TLIGHTUSERDATA:
		if (lua_touserdata(L, -1) == NULL) {
			add_text(e, "null");
			return;
		}
	}
	refuse_value(e, -1, "type not supported");
}

static int json_encode(lua_State *L) {
	struct interpreter *in = interpreter_of(L);
	luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
	struct encoder e = {L, &in->output, &in->json, 0};
	in->output.length = 0;
	encode_value(&e, 0);
	lua_pushlstring(L, in->output.data, in->output.length);
	return 1;
}

enum token {
	OBJECT_BEGIN, OBJECT_END, ARRAY_BEGIN, ARRAY_END, STRING, NUMBER, BOOLEAN, NULL_VALUE, COLON, COMMA, END, INVALID,
};

static const char *const token_names[] = {"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING", "T_NUMBER", "T_BOOLEAN",
	"T_NULL", "T_COLON", "T_COMMA", "T_END"};

struct decoder {
	lua_State *L;
	struct bytes *text; // memory for strings
	const struct json_options *options;
	const char *begin, *at, *end;
	int depth;
	unsigned steps;

	// The token that was read last.
	enum token token;
	const char *place;
	const char *wrong; // with an invalid one
	lua_Number number;
	int boolean;
	const char *string;
	size_t length; // of the string
};

static void set_invalid(struct decoder *d, const char *place, const char *wrong) {
	d->token = INVALID;
	d->place = place;
	d->wrong = wrong;
}

// is_odd tells whether a number isn't one in JSON, though C reads it.
static int is_odd(const char *at) {
	if (*at == '+')
		return 1;
	if (*at == '-')
		at++;
	if (*at == '0')
		return (at[1] | 0x20) == 'x' || isdigit((unsigned char)at[1]);
	return strncasecmp(at, "inf", 3) == 0 || strncasecmp(at, "nan", 3) == 0;
}

// read_whole reads a number of at most 15 digits and nothing else, which strtod takes long for; 0: it isn't one.
static int read_whole(struct decoder *d) {
	const char *at = d->at + (*d->at == '-'), *first = at;
	int64_t n = 0;
	for (; isdigit((unsigned char)*at) && at - first < 16; at++)
		n = n * 10 + (*at - '0');
	if (at == first || at - first > 15 || *at == '.' || (*at | 0x20) == 'e' || (*at | 0x20) == 'x')
		return 0;
	d->number = *d->at == '-' ? -(lua_Number)n : (lua_Number)n;
	d->at = at;
	return 1;
}

static void read_number(struct decoder *d) {
	char *end;
	d->token = NUMBER;
	if (read_whole(d))
		return;
	d->number = strtod(d->at, &end);
	if (end == d->at)
		set_invalid(d, d->at, "invalid number");
	else
		d->at = end;
}

// read_hex reads four digits; -1: they are none.
static int read_hex(const char *at) {
	int code = 0;
	for (int i = 0; i < 4; i++) {
		int c = (unsigned char)at[i];
		if (!isxdigit(c))
			return -1;
		code = code << 4 | (isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
	}
	return code;
}

static void add_utf8(struct decoder *d, int code) {
	char text[4];
	size_t length = 1;
	if (code < 0x80) {
		text[0] = (char)code;
	} else if (code < 0x800) {
		text[0] = (char)(0xC0 | code >> 6);
		length = 2;
	} else if (code < 0x10000) {
		text[0] = (char)(0xE0 | code >> 12);
		length = 3;
	} else {
		text[0] = (char)(0xF0 | code >> 18);
		length = 4;
	}
	for (size_t i = length - 1; i > 0; i--, code >>= 6)
		text[i] = (char)(0x80 | (code & 0x3F));
	add(d->L, d->text, text, length);
}

// read_unicode reads what stands behind \u, of a pair of surrogates both. NULL: it is wrong.
static const char *read_unicode(struct decoder *d, const char *at) {
	int code = read_hex(at);
	if (code < 0 || (code & 0xFC00) == 0xDC00)
		return NULL;
	at += 4;
	if ((code & 0xFC00) == 0xD800) {
		if (at[0] != '\\' || at[1] != 'u')
			return NULL;
		int low = read_hex(at + 2);
		if (low < 0 || (low & 0xFC00) != 0xDC00)
			return NULL;
		code = 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF));
		at += 6;
	}
	add_utf8(d, code);
	return at;
}

static void read_string(struct decoder *d) {
	static const char letters[] = "\"\\/btnfr", meant[] = "\"\\/\b\t\n\f\r";
	const char *at = d->at + 1, *plain = at;
	d->token = STRING;
	while (*at != '"' && *at != '\\' && *at != 0)
		at++;
	if (*at == '"') {
		d->string = plain;
		d->length = (size_t)(at - plain);
		d->at = at + 1;
		return;
	}
	d->text->length = 0;
	for (at = plain; *at != '"'; plain = at) {
		while (*at != '"' && *at != '\\' && *at != 0)
			at++;
		add(d->L, d->text, plain, (size_t)(at - plain));
		if (*at == '"')
			break;
		if (*at == 0) {
			set_invalid(d, at, "unexpected end of string");
			return;
		}
		const char *letter = at[1] == 0 ? NULL : strchr(letters, at[1]);
		if (letter != NULL) {
			add(d->L, d->text, &meant[letter - letters], 1);
			at += 2;
			continue;
		}
		const char *behind = at[1] == 'u' ? read_unicode(d, at + 2) : NULL;
		if (behind == NULL) {
			set_invalid(d, at, at[1] == 'u' ? "invalid unicode escape code" : "invalid escape code");
			return;
		}
		at = behind;
	}
	d->string = d->text->data;
	d->length = d->text->length;
	d->at = at + 1;
}

static int read_word(struct decoder *d, const char *word, enum token token) {
	size_t length = strlen(word);
	if (strncmp(d->at, word, length) != 0)
		return 0;
	d->token = token;
	d->boolean = *word == 't';
	d->at += length;
	return 1;
}

// sign returns the token that is one character; INVALID: it isn't one.
static enum token sign(char c) {
	switch (c) {
	case '{': return OBJECT_BEGIN;
	case '}': return OBJECT_END;
	case '[': return ARRAY_BEGIN;
	case ']': return ARRAY_END;
	case ':': return COLON;
	case ',': return COMMA;
	}
	return INVALID;
}

// next reads the next token.
static void next(struct decoder *d) {
	if (++d->steps % 1024 == 0)
		poll_run(d->L);
	while (*d->at == ' ' || *d->at == '\t' || *d->at == '\n' || *d->at == '\r')
		d->at++;
	d->place = d->at;
	char c = *d->at;
	if ((d->token = sign(c)) != INVALID) {
		d->at++;
	} else if (c == 0) {
		d->token = END;
	} else if (c == '"') {
		read_string(d);
	} else if (c == '-' || isdigit((unsigned char)c)) {
		if (!d->options->decode_invalid && is_odd(d->at))
			set_invalid(d, d->at, "invalid number");
		else
			read_number(d);
	} else if (!read_word(d, "true", BOOLEAN) && !read_word(d, "false", BOOLEAN) && !read_word(d, "null", NULL_VALUE)) {
		if (d->options->decode_invalid && is_odd(d->at))
			read_number(d);
		else
			set_invalid(d, d->at, "invalid token");
	}
}

static void refuse_token(struct decoder *d, const char *expected) {
	const char *found = d->token == INVALID ? d->wrong : token_names[d->token];
	luaL_error(d->L, "Expected %s but found %s at character %d", expected, found, (int)(d->place - d->begin) + 1);
}

static void decode_value(struct decoder *d);

static void descend(struct decoder *d) {
	if (++d->depth > d->options->decode_depth || d->depth > DEEPEST || !lua_checkstack(d->L, 3))
		luaL_error(d->L, "Found too many nested data structures (%d) at character %d", d->depth, (int)(d->at - d->begin));
	lua_newtable(d->L);
	next(d);
}

static void decode_object(struct decoder *d) {
	descend(d);
	for (int first = 1; d->token != OBJECT_END || !first; first = 0) {
		if (d->token != STRING)
			refuse_token(d, "object key string");
		lua_pushlstring(d->L, d->string, d->length);
		next(d);
		if (d->token != COLON)
			refuse_token(d, "colon");
		next(d);
		decode_value(d);
		lua_rawset(d->L, -3);
		next(d);
		if (d->token == OBJECT_END)
			break;
		if (d->token != COMMA)
			refuse_token(d, "comma or object end");
		next(d);
	}
	d->depth--;
}

static void decode_array(struct decoder *d) {
	descend(d);
	for (int i = 1; d->token != ARRAY_END || i > 1; i++) {
		decode_value(d);
		lua_rawseti(d->L, -2, i);
		next(d);
		if (d->token == ARRAY_END)
			break;
		if (d->token != COMMA)
			refuse_token(d, "comma or array end");
		next(d);
	}
	d->depth--;
}

// decode_value pushes the value that begins with the token that was read last.
static void decode_value(struct decoder *d) {
	switch (d->token) {
	case STRING: lua_pushlstring(d->L, d->string, d->length); return;
	case NUMBER: lua_pushnumber(d->L, d->number); return;
	case BOOLEAN: lua_pushboolean(d->L, d->boolean); return;
	case OBJECT_BEGIN: decode_object(d); return;
	case ARRAY_BEGIN: decode_array(d); return;
	case NULL_VALUE: lua_pushlightuserdata(d->L, NULL); return;
	default: refuse_token(d, "value");
	}
}

static int json_decode(lua_State *L) {
	struct interpreter *in = interpreter_of(L);
	luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
	size_t length;
	const char *text = luaL_checklstring(L, 1, &length);
	if (length >= 2 && (text[0] == 0 || text[1] == 0))
		return luaL_error(L, "JSON parser does not support UTF-16 or UTF-32");
	struct decoder d = {.L = L, .text = &in->output, .options = &in->json, .begin = text, .at = text, .end = text + length};
	make_room(L, d.text, 1); // there is memory even for an empty string
	next(&d);
	decode_value(&d);
	next(&d);
	if (d.token != END)
		refuse_token(&d, "the end");
	return 1;
}

// option_count allows at most so many parameters, and fills up what isn't given.
static void option_count(lua_State *L, int most) {
	luaL_argcheck(L, lua_gettop(L) <= most, most + 1, "found too many arguments");
	lua_settop(L, most);
}

static int integer_option(lua_State *L, int index, int *value, int least, int most) {
	if (!lua_isnil(L, index)) {
		int given = luaL_checkint(L, index);
		char text[64];
		snprintf(text, sizeof text, "expected integer between %d and %d", least, most);
		luaL_argcheck(L, least <= given && given <= most, index, text);
		*value = given;
	}
	lua_pushinteger(L, *value);
	return 1;
}

static int boolean_option(lua_State *L, int index, int *value) {
	if (lua_isboolean(L, index)) {
		*value = lua_toboolean(L, index);
	} else if (!lua_isnil(L, index)) {
		static const char *const words[] = {"off", "on", NULL};
		*value = luaL_checkoption(L, index, NULL, words);
	}
	lua_pushboolean(L, *value);
	return 1;
}

static int json_encode_sparse_array(lua_State *L) {
	struct json_options *o = &interpreter_of(L)->json;
	option_count(L, 3);
	boolean_option(L, 1, &o->sparse_convert);
	integer_option(L, 2, &o->sparse_ratio, 0, INT_MAX);
	integer_option(L, 3, &o->sparse_safe, 0, INT_MAX);
	return 3;
}

static int json_encode_max_depth(lua_State *L) {
	option_count(L, 1);
	return integer_option(L, 1, &interpreter_of(L)->json.encode_depth, 1, INT_MAX);
}

static int json_decode_max_depth(lua_State *L) {
	option_count(L, 1);
	return integer_option(L, 1, &interpreter_of(L)->json.decode_depth, 1, INT_MAX);
}

static int json_encode_number_precision(lua_State *L) {
	option_count(L, 1);
	return integer_option(L, 1, &interpreter_of(L)->json.precision, 1, 14);
}

static int json_encode_keep_buffer(lua_State *L) {
	option_count(L, 1);
	return boolean_option(L, 1, &interpreter_of(L)->json.keep_buffer);
}

static int json_decode_invalid_numbers(lua_State *L) {
	option_count(L, 1);
	return boolean_option(L, 1, &interpreter_of(L)->json.decode_invalid);
}

static int json_encode_invalid_numbers(lua_State *L) {
	static const char *const words[] = {"off", "on", "null", NULL};
	int *value = &interpreter_of(L)->json.encode_invalid;
	option_count(L, 1);
	if (lua_isboolean(L, 1))
		*value = lua_toboolean(L, 1);
	else if (!lua_isnil(L, 1))
		*value = luaL_checkoption(L, 1, NULL, words);
	if (*value == INVALID_NULL)
		lua_pushliteral(L, "null");
	else
		lua_pushboolean(L, *value);
	return 1;
}

static int json_new(lua_State *L);

static const luaL_Reg functions[] = {{"encode", json_encode}, {"decode", json_decode}, {"encode_sparse_array", json_encode_sparse_array},
	{"encode_max_depth", json_encode_max_depth}, {"decode_max_depth", json_decode_max_depth},
	{"encode_number_precision", json_encode_number_precision}, {"encode_keep_buffer", json_encode_keep_buffer},
	{"encode_invalid_numbers", json_encode_invalid_numbers}, {"decode_invalid_numbers", json_decode_invalid_numbers},
	{"new", json_new}, {NULL, NULL}};

static int json_new(lua_State *L) {
	lua_newtable(L);
	luaL_register(L, NULL, functions);
	lua_pushlightuserdata(L, NULL);
	lua_setfield(L, -2, "null");
	lua_pushliteral(L, "cjson");
	lua_setfield(L, -2, "_NAME");
	lua_pushliteral(L, "2.1.0");
	lua_setfield(L, -2, "_VERSION");
	return 1;
}

void reset_json(struct interpreter *in) {
	in->json = (struct json_options){.encode_depth = 1000, .decode_depth = 1000, .precision = 14, .sparse_ratio = 2, .sparse_safe = 10,
		.keep_buffer = 1, .decode_invalid = 1};
}

void open_json(lua_State *L) {
	json_new(L);
	lua_setglobal(L, "cjson");
}
