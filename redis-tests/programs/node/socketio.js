// Socket.IO: several servers that are one to their clients, by publish/subscribe (redis-adapter, redis-emitter) and by a stream
// (redis-streams-adapter), which has what a client missed that was away.
'use strict'

const assert = require('node:assert/strict')
const http = require('node:http')
const Redis = require('ioredis')
const { Server } = require('socket.io')
const { io: connect } = require('socket.io-client')
const { createAdapter } = require('@socket.io/redis-adapter')
const { createAdapter: createStreamsAdapter } = require('@socket.io/redis-streams-adapter')
const { Emitter } = require('@socket.io/redis-emitter')
const { address, crash, insist, until, run, range } = require('./driver')

const client = () => new Redis({ ...address, maxRetriesPerRequest: null }).on('error', () => {}) // while the server is away

const published = () => createAdapter(client(), client())
const streamed = () => createStreamsAdapter(client(), { readCount: 20, streamName: 'socket.io' })

// start starts a server of Socket.IO on a free port.
async function start (adapter, options) {
  const server = http.createServer()
  const io = new Server(server, { adapter: adapter(), ...options })
  io.on('connection', socket => {
    socket.on('join', (room, joined) => { socket.join(room); joined() })
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  io.url = `http://127.0.0.1:${server.address().port}`
  return io
}

// visit connects a client, which keeps what it gets.
async function visit (io) {
  const socket = connect(io.url, { transports: ['websocket'], forceNew: true, reconnectionDelay: 50 })
  socket.got = []
  socket.on('number', number => socket.got.push(number))
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('connect_error', reject))
  return socket
}

const join = (socket, room) => new Promise(resolve => socket.emit('join', room, resolve))

// got waits until sockets have as many numbers as are expected, in order, and forgets them.
async function got (sockets, ...expected) {
  await until('all numbers', () => sockets.every((socket, i) => socket.got.length >= expected[i].length))
  assert.deepEqual(sockets.map(socket => socket.got.splice(0)), expected)
}

// oneOfMany: three servers with a client each behave as one.
async function oneOfMany (adapter) {
  const servers = await Promise.all(range(0, 3).map(() => start(adapter)))
  // Servers know each other by what they hear.
  await until('all servers', async () => (await Promise.all(servers.map(io => io.of('/').adapter.serverCount()))).every(count => count === 3))
  const sockets = await Promise.all(servers.map(visit))
  const all = range(0, 50)
  all.forEach(number => servers[0].emit('number', number))
  await got(sockets, all, all, all)
  await Promise.all(sockets.slice(0, 2).map(socket => join(socket, 'room')))
  all.forEach(number => servers[2].to('room').emit('number', number))
  servers[1].except('room').emit('number', 1000)
  await got(sockets, all, all, [1000])
  const found = await servers[0].fetchSockets()
  assert.deepEqual(found.map(({ id }) => id).sort(), sockets.map(({ id }) => id).sort())
  assert.equal((await servers[2].in('room').fetchSockets()).length, 2)
  // Clients are moved by servers that don't have them, and answer those.
  await servers[0].in(sockets[2].id).socketsJoin('room')
  await until('the third member', async () => (await servers[1].in('room').fetchSockets()).length === 3)
  sockets.forEach((socket, i) => socket.on('question', answer => answer(i)))
  assert.deepEqual((await servers[1].timeout(30_000).emitWithAck('question')).sort(), [0, 1, 2])
  // Servers talk to each other.
  servers.forEach((io, i) => io.on('sum', (a, b, answer) => answer(a + b + i)))
  assert.deepEqual((await servers[0].serverSideEmitWithAck('sum', 10, 20)).sort(), [31, 32])
  return { servers, sockets }
}

// again: once the server is back, every message arrives again, once.
async function again ({ servers, sockets }) {
  await crash()
  // A message is lost that is sent before all have subscribed again. Those that come later are not.
  let number = 2000
  for (const io of servers) {
    await until('each server is heard by all', async () => {
      io.emit('number', number++)
      return sockets.every(socket => socket.got.length > 0)
    })
    await until('quiet', async () => (await servers[0].serverSideEmitWithAck('sum', 0, 0).catch(() => [])).length === 2)
    sockets.forEach(socket => { socket.got = [] })
  }
  servers[1].emit('number', -1)
  await until('the last', () => sockets.every(socket => socket.got.includes(-1)))
  sockets.forEach(socket => { socket.got = [] })
  const all = range(0, 50)
  all.forEach(one => servers[1].emit('number', one))
  await got(sockets, all, all, all)
}

async function close ({ servers, sockets }) {
  sockets.forEach(socket => socket.close())
  await Promise.all(servers.map(io => io.close()))
}

async function publishSubscribe () {
  const cluster = await oneOfMany(published)
  const emitter = new Emitter(client())
  emitter.to('room').emit('number', 7)
  await got(cluster.sockets, [7], [7], [7])
  await again(cluster)
  await close(cluster)
}

async function stream () {
  const cluster = await oneOfMany(streamed)
  await again(cluster)
  await close(cluster)
}

// recovery: a client whose connection breaks comes back to another server, as itself, and gets what it has missed, from before and after a
// crash of the store.
async function recovery () {
  const store = client()
  const adapter = () => createStreamsAdapter(client(), { streamName: 'recovery' })
  const servers = await Promise.all(range(0, 2).map(() => start(adapter, { connectionStateRecovery: { maxDisconnectionDuration: 60_000 } })))
  await until('both servers', async () => (await Promise.all(servers.map(io => io.of('/').adapter.serverCount()))).every(count => count === 2))
  const socket = await visit(servers[0])
  const { id } = socket
  await join(socket, 'room')
  const send = async numbers => { // numbers into the room, and some elsewhere; they are in the stream then
    const length = await store.xlen('recovery')
    for (const number of numbers) {
      servers[1].to('room').emit('number', number)
      servers[1].to('elsewhere').emit('number', -number)
    }
    await until('the stream', async () => await store.xlen('recovery') >= length + 2 * numbers.length)
  }
  await send(range(0, 20))
  await got([socket], range(0, 20))
  socket.io.reconnection(false)
  socket.io.engine.close()
  await until('the session', async () => (await store.keys('sio:session:*')).length === 1)
  await send(range(20, 40))
  await crash()
  await insist(() => store.ping())
  assert.equal((await store.keys('sio:session:*')).length, 1)
  await send(range(40, 60))
  socket.io.uri = servers[1].url
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('connect_error', reject).connect())
  assert.ok(socket.recovered && socket.id === id, 'the client is another one')
  await got([socket], range(20, 60))
  assert.deepEqual(await store.keys('sio:session:*'), [])
  await send([60])
  await got([socket], [60])
  await close({ servers, sockets: [socket] })
}

run('socket.io', publishSubscribe, stream, recovery)
