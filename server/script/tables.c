// The functions of tables that may run for long or write to a table, with the results of Lua 5.1.
#include "interpreter.h"

// An element that is moved counts as so many bytes, and one that is added to a text, which takes
// longer. They are noted beforehand, and long loops are polled, too.
enum { MOVED_BYTES = 16, ADDED_BYTES = 64, ELEMENTS_PER_POLL = 64 << 10 };

static int table_insert(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	int behind = (int)lua_objlen(L, 1) + 1;
	int at = behind;
	switch (lua_gettop(L)) {
	case 2:
		break;
	case 3:
		at = luaL_checkint(L, 2);
		if (at > behind)
			behind = at;
		note_bytes(L, (size_t)((ptrdiff_t)behind - at) * MOVED_BYTES);
		for (int i = behind; i > at; i--) {
			lua_rawgeti(L, 1, i - 1);
			lua_rawseti(L, 1, i);
			if (i % ELEMENTS_PER_POLL == 0)
				poll_run(L);
		}
		break;
	default:
		return luaL_error(L, "wrong number of arguments to 'insert'");
	}
	if (reveal(L, 1))
		return fail(L, "Attempt to modify a readonly table");
	lua_rawseti(L, 1, at);
	return 0;
}

static int table_remove(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	int last = (int)lua_objlen(L, 1);
	int at = luaL_optint(L, 2, last);
	if (at < 1 || at > last)
		return 0;
	note_bytes(L, (size_t)(last - at) * MOVED_BYTES);
	lua_rawgeti(L, 1, at);
	for (; at < last; at++) {
		lua_rawgeti(L, 1, at + 1);
		lua_rawseti(L, 1, at);
		if (at % ELEMENTS_PER_POLL == 0)
			poll_run(L);
	}
	lua_pushnil(L);
	lua_rawseti(L, 1, last);
	return 1;
}

static void add_element(lua_State *L, luaL_Buffer *b, int at) {
	lua_rawgeti(L, 1, at);
	if (!lua_isstring(L, -1))
		luaL_error(L, "invalid value (%s) at index %d in table for 'concat'", luaL_typename(L, -1), at);
	luaL_addvalue(b);
}

// table_concat is polled since it takes no memory for empty texts, however many they are.
static int table_concat(lua_State *L) {
	size_t length;
	const char *between = luaL_optlstring(L, 2, "", &length);
	luaL_checktype(L, 1, LUA_TTABLE);
	ptrdiff_t first = luaL_optint(L, 3, 1);
	ptrdiff_t last = lua_isnoneornil(L, 4) ? (ptrdiff_t)lua_objlen(L, 1) : luaL_checkint(L, 4);
	luaL_Buffer text;
	luaL_buffinit(L, &text);
	if (first <= last)
		note_bytes(L, (size_t)(last - first + 1) * ADDED_BYTES);
	for (ptrdiff_t i = first; i <= last; i++) {
		if (i > first)
			luaL_addlstring(&text, between, length);
		add_element(L, &text, (int)i);
		if (i % ELEMENTS_PER_POLL == 0)
			poll_run(L);
	}
	luaL_pushresult(&text);
	return 1;
}

// before tells whether the value at one place of the stack comes before another.
static int before(lua_State *L, int a, int b) {
	if (lua_isnil(L, 2))
		return lua_lessthan(L, a, b);
	lua_pushvalue(L, 2);
	lua_pushvalue(L, a < 0 ? a - 1 : a);
	lua_pushvalue(L, b < 0 ? b - 2 : b);
	lua_call(L, 2, 1);
	int is = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return is;
}

// store_two stores the value on top at i, and the one below it at j.
static void store_two(lua_State *L, int i, int j) {
	lua_rawseti(L, 1, i);
	lua_rawseti(L, 1, j);
}

// order_ends exchanges the elements at i and j if the later one comes first.
static void order_ends(lua_State *L, int i, int j) {
	lua_rawgeti(L, 1, i);
	lua_rawgeti(L, 1, j);
	if (before(L, -1, -2))
		store_two(L, i, j);
	else
		lua_pop(L, 2);
}

static void check_order(lua_State *L, int inside) {
	if (!inside)
		luaL_error(L, "invalid order function for sorting");
}

// split moves what comes before the pivot, which is on top of the stack and at high-1, to its left, and returns where it ends up. Elements
// that are equal end up where Lua 5.1 leaves them, since scripts see that.
static int split(lua_State *L, int low, int high) {
	int i = low, j = high - 1;
	for (unsigned steps = 1;; steps++) {
		if (steps % 1024 == 0)
			poll_run(L);
		while (lua_rawgeti(L, 1, ++i), before(L, -1, -2)) {
			check_order(L, i < high);
			lua_pop(L, 1);
		}
		while (lua_rawgeti(L, 1, --j), before(L, -3, -1)) {
			check_order(L, j > low);
			lua_pop(L, 1);
		}
		if (j < i)
			break;
		store_two(L, i, j);
	}
	lua_pop(L, 3);
	lua_rawgeti(L, 1, high - 1);
	lua_rawgeti(L, 1, i);
	store_two(L, high - 1, i);
	return i;
}

// sort sorts the elements from low to high: quicksort with the median of three, of which the smaller part is sorted by recursion.
static void sort(lua_State *L, int low, int high) {
	while (low < high) {
		poll_run(L);
		order_ends(L, low, high);
		if (high - low == 1)
			return;
		int middle = (low + high) / 2;
		lua_rawgeti(L, 1, middle);
		lua_rawgeti(L, 1, low);
		if (before(L, -2, -1)) {
			store_two(L, middle, low);
		} else {
			lua_pop(L, 1);
			lua_rawgeti(L, 1, high);
			if (before(L, -1, -2))
				store_two(L, middle, high);
			else
				lua_pop(L, 2);
		}
		if (high - low == 2)
			return;
		lua_rawgeti(L, 1, middle);
		lua_pushvalue(L, -1);
		lua_rawgeti(L, 1, high - 1);
		store_two(L, middle, high - 1);
		int pivot = split(L, low, high);
		if (pivot - low < high - pivot) {
			sort(L, low, pivot - 1);
			low = pivot + 1;
		} else {
			sort(L, pivot + 1, high);
			high = pivot - 1;
		}
	}
}

static int table_sort(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	int count = (int)lua_objlen(L, 1);
	luaL_checkstack(L, 40, "");
	if (!lua_isnoneornil(L, 2))
		luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_settop(L, 2);
	sort(L, 1, count);
	return 0;
}

void open_tables(lua_State *L) {
	static const luaL_Reg functions[] = {{"insert", table_insert}, {"remove", table_remove}, {"concat", table_concat},
		{"sort", table_sort}, {NULL, NULL}};
	lua_getglobal(L, "table");
	luaL_register(L, NULL, functions);
	lua_pop(L, 1);
}
