// The library bit: operations on numbers of 32 bits, with the results of LuaBitOp.
#include "interpreter.h"

#include <string.h>

// to_bits takes a number modulo 2^32: adding 2^52 and half of it leaves its lowest bits at the end of the double.
static uint32_t to_bits(lua_State *L, int index) {
	union {
		double number;
		uint64_t bits;
	} value = {luaL_checknumber(L, index) + 6755399441055744.0};
	return (uint32_t)value.bits;
}

static int push_bits(lua_State *L, uint32_t bits) {
	lua_pushnumber(L, (int32_t)bits);
	return 1;
}

static int bit_tobit(lua_State *L) { return push_bits(L, to_bits(L, 1)); }
static int bit_bnot(lua_State *L) { return push_bits(L, ~to_bits(L, 1)); }
static int bit_bswap(lua_State *L) { return push_bits(L, __builtin_bswap32(to_bits(L, 1))); }

static int bit_band(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	for (int i = lua_gettop(L); i > 1; i--)
		bits &= to_bits(L, i);
	return push_bits(L, bits);
}

static int bit_bor(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	for (int i = lua_gettop(L); i > 1; i--)
		bits |= to_bits(L, i);
	return push_bits(L, bits);
}

static int bit_bxor(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	for (int i = lua_gettop(L); i > 1; i--)
		bits ^= to_bits(L, i);
	return push_bits(L, bits);
}

static uint32_t rotate(uint32_t bits, uint32_t by) { return by == 0 ? bits : bits << by | bits >> (32 - by); }

static int bit_lshift(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	return push_bits(L, bits << (to_bits(L, 2) & 31));
}

static int bit_rshift(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	return push_bits(L, bits >> (to_bits(L, 2) & 31));
}

static int bit_arshift(lua_State *L) {
	int32_t bits = (int32_t)to_bits(L, 1);
	return push_bits(L, (uint32_t)(bits >> (to_bits(L, 2) & 31)));
}

static int bit_rol(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	return push_bits(L, rotate(bits, to_bits(L, 2) & 31));
}

static int bit_ror(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	return push_bits(L, rotate(bits, -to_bits(L, 2) & 31));
}

static int bit_tohex(lua_State *L) {
	uint32_t bits = to_bits(L, 1);
	int32_t digits = lua_isnone(L, 2) ? 8 : (int32_t)to_bits(L, 2);
	const char *alphabet = digits < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
	uint32_t count = digits < 0 ? -(uint32_t)digits : (uint32_t)digits;
	if (count > 8)
		count = 8;
	char text[8];
	for (int i = (int)count; --i >= 0; bits >>= 4)
		text[i] = alphabet[bits & 15];
	lua_pushlstring(L, text, count);
	return 1;
}

void open_bit(lua_State *L) {
	static const luaL_Reg functions[] = {{"tobit", bit_tobit}, {"bnot", bit_bnot}, {"bswap", bit_bswap}, {"band", bit_band},
		{"bor", bit_bor}, {"bxor", bit_bxor}, {"lshift", bit_lshift}, {"rshift", bit_rshift}, {"arshift", bit_arshift}, {"rol", bit_rol},
		{"ror", bit_ror}, {"tohex", bit_tohex}, {NULL, NULL}};
	lua_newtable(L);
	luaL_register(L, NULL, functions);
	lua_setglobal(L, "bit");
}
