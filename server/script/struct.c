// The library struct: numbers and strings as bytes, with the results of the one in Redis.
#include "interpreter.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { LARGEST_INTEGER = 32, NATURAL_ALIGNMENT = 8 };

struct layout {
	int big_endian;
	size_t alignment;
};

static size_t number(lua_State *L, const char **format, size_t otherwise) {
	if (!isdigit((unsigned char)**format))
		return otherwise;
	size_t n = 0;
	for (; isdigit((unsigned char)**format); (*format)++) {
		if (n > INT_MAX / 10 || n * 10 > (size_t)(INT_MAX - (**format - '0')))
			luaL_error(L, "integral size overflow");
		n = n * 10 + (size_t)(**format - '0');
	}
	return n;
}

static size_t size_of(lua_State *L, char option, const char **format) {
	switch (option) {
	case 'B': case 'b': case 'x': return 1;
	case 'H': case 'h': return 2;
	case 'L': case 'l': case 'T': case 'd': return 8;
	case 'f': return 4;
	case 'c': return number(L, format, 1);
	case 'i': case 'I': {
		size_t size = number(L, format, 4);
		if (size > LARGEST_INTEGER)
			luaL_error(L, "integral size %d is larger than limit of %d", (int)size, LARGEST_INTEGER);
		return size;
	}
	}
	return 0;
}

static size_t padding(size_t at, const struct layout *layout, char option, size_t size) {
	if (size == 0 || option == 'c')
		return 0;
	if (size > layout->alignment)
		size = layout->alignment;
	return (size - (at & (size - 1))) & (size - 1);
}

// control takes an option that says how the others are laid out.
static void control(lua_State *L, char option, const char **format, struct layout *layout) {
	switch (option) {
	case ' ': return;
	case '>': layout->big_endian = 1; return;
	case '<': layout->big_endian = 0; return;
	case '!': {
		size_t alignment = number(L, format, NATURAL_ALIGNMENT);
		if (alignment == 0 || (alignment & (alignment - 1)) != 0)
			luaL_error(L, "alignment %d is not a power of 2", (int)alignment);
		layout->alignment = alignment;
		return;
	}
	}
	luaL_argerror(L, 1, lua_pushfstring(L, "invalid format option '%c'", option));
}

static void add_integer(luaL_Buffer *b, lua_Number n, const struct layout *layout, size_t size) {
	uint64_t value;
	if (n < 0)
		value = n >= -9223372036854775808.0 ? (uint64_t)(int64_t)n : (uint64_t)INT64_MIN;
	else
		value = n < 18446744073709551616.0 ? (uint64_t)n : 0;
	unsigned char bytes[LARGEST_INTEGER];
	for (size_t i = 0; i < size; i++, value >>= 8)
		bytes[layout->big_endian ? size - 1 - i : i] = (unsigned char)value;
	luaL_addlstring(b, (char *)bytes, size);
}

static lua_Number get_integer(const char *data, const struct layout *layout, int is_signed, size_t size) {
	uint64_t value = 0;
	for (size_t i = 0; i < size; i++)
		value = value << 8 | (unsigned char)data[layout->big_endian ? i : size - 1 - i];
	if (!is_signed)
		return (lua_Number)value;
	if (size > 0 && size < 8 && value >> (size * 8 - 1) & 1)
		value |= ~(uint64_t)0 << (size * 8 - 1);
	return (lua_Number)(int64_t)value;
}

// reversed copies the bytes of a number of floating point, in the order of the layout.
static void reversed(char *to, const char *from, size_t size, const struct layout *layout) {
	for (size_t i = 0; i < size; i++)
		to[i] = from[layout->big_endian ? size - 1 - i : i];
}

static void add_float(luaL_Buffer *b, lua_Number n, const struct layout *layout, size_t size) {
	char bytes[8];
	float f = (float)n;
	double d = n;
	reversed(bytes, size == 4 ? (char *)&f : (char *)&d, size, layout);
	luaL_addlstring(b, bytes, size);
}

static lua_Number get_float(const char *data, const struct layout *layout, size_t size) {
	float f;
	double d;
	reversed(size == 4 ? (char *)&f : (char *)&d, data, size, layout);
	return size == 4 ? (lua_Number)f : d;
}

static int struct_pack(lua_State *L) {
	const char *format = luaL_checkstring(L, 1);
	struct layout layout = {0, 1};
	int argument = 2;
	size_t total = 0;
	luaL_Buffer b;
	lua_pushnil(L); // between parameters and what the buffer pushes
	luaL_buffinit(L, &b);
	while (*format != 0) {
		char option = *format++;
		size_t size = size_of(L, option, &format);
		for (size_t pad = padding(total, &layout, option, size); pad > 0; pad--, total++)
			luaL_addchar(&b, 0);
		switch (option) {
		case 'b': case 'B': case 'h': case 'H': case 'l': case 'L': case 'T': case 'i': case 'I':
			add_integer(&b, luaL_checknumber(L, argument++), &layout, size);
			break;
		case 'x':
			luaL_addchar(&b, 0);
			break;
		case 'f': case 'd':
			add_float(&b, luaL_checknumber(L, argument++), &layout, size);
			break;
		case 'c': case 's': {
			size_t length;
			const char *text = luaL_checklstring(L, argument++, &length);
			if (size == 0)
				size = length;
			luaL_argcheck(L, length >= size, argument, "string too short");
			luaL_addlstring(&b, text, size);
			if (option == 's') {
				luaL_addchar(&b, 0);
				size++;
			}
			break;
		}
		default:
			control(L, option, &format, &layout);
		}
		total += size;
	}
	luaL_pushresult(&b);
	return 1;
}

// take_size takes the size of a string off the values that were unpacked.
static size_t take_size(lua_State *L, int *count) {
	if (*count == 0 || !lua_isnumber(L, -1))
		luaL_error(L, "format 'c0' needs a previous size");
	lua_Number size = lua_tonumber(L, -1);
	lua_pop(L, 1);
	(*count)--;
	luaL_argcheck(L, size >= 0 && size < 2147483648.0, 2, "data string too short");
	return (size_t)size;
}

static int struct_unpack(lua_State *L) {
	const char *format = luaL_checkstring(L, 1);
	size_t length;
	const char *data = luaL_checklstring(L, 2, &length);
	size_t at = (size_t)luaL_optinteger(L, 3, 1);
	luaL_argcheck(L, at > 0, 3, "offset must be 1 or greater");
	at--;
	struct layout layout = {0, 1};
	int count = 0;
	lua_settop(L, 2);
	while (*format != 0) {
		char option = *format++;
		size_t size = size_of(L, option, &format);
		at += padding(at, &layout, option, size);
		luaL_argcheck(L, size <= length && at <= length - size, 2, "data string too short");
		luaL_checkstack(L, 2, "too many results");
		switch (option) {
		case 'b': case 'B': case 'h': case 'H': case 'l': case 'L': case 'T': case 'i': case 'I':
			lua_pushnumber(L, get_integer(data + at, &layout, islower((unsigned char)option), size));
			count++;
			break;
		case 'x':
			break;
		case 'f': case 'd':
			lua_pushnumber(L, get_float(data + at, &layout, size));
			count++;
			break;
		case 'c':
			if (size == 0) {
				size = take_size(L, &count);
				luaL_argcheck(L, size <= length && at <= length - size, 2, "data string too short");
			}
			lua_pushlstring(L, data + at, size);
			count++;
			break;
		case 's': {
			const char *end = memchr(data + at, 0, length - at);
			if (end == NULL)
				luaL_error(L, "unfinished string in data");
			size = (size_t)(end - (data + at)) + 1;
			lua_pushlstring(L, data + at, size - 1);
			count++;
			break;
		}
		default:
			control(L, option, &format, &layout);
		}
		at += size;
	}
	lua_pushinteger(L, (lua_Integer)at + 1);
	return count + 1;
}

static int struct_size(lua_State *L) {
	const char *format = luaL_checkstring(L, 1);
	struct layout layout = {0, 1};
	size_t at = 0;
	while (*format != 0) {
		char option = *format++;
		size_t size = size_of(L, option, &format);
		at += padding(at, &layout, option, size);
		if (option == 's')
			luaL_argerror(L, 1, "option 's' has no fixed size");
		if (option == 'c' && size == 0)
			luaL_argerror(L, 1, "option 'c0' has no fixed size");
		if (!isalnum((unsigned char)option))
			control(L, option, &format, &layout);
		at += size;
	}
	lua_pushinteger(L, (lua_Integer)at);
	return 1;
}

void open_struct(lua_State *L) {
	static const luaL_Reg functions[] = {{"pack", struct_pack}, {"unpack", struct_unpack}, {"size", struct_size}, {NULL, NULL}};
	lua_newtable(L);
	luaL_register(L, NULL, functions);
	lua_setglobal(L, "struct");
}
