import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { type Connection, Connections } from "../../../src/node/limits/connections.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";

/**
 * Connections on a clock of their own, and what they ran into.
 *
 * @param close What the end of a socket does: it emits `close`, which real sockets do in a later turn of the loop.
 */
function start(limits: object, close = (emit: () => void) => emit()) {
  let now = 0;
  const reached: Limit[] = [];
  const connections = new Connections(
    { ...usualLimits, ...limits },
    (limit) => reached.push(limit),
    () => now,
  );
  const pass = (milliseconds: number): void => {
    now += milliseconds;
    connections.sweep();
  };
  const open = (address: string, change: Partial<Connection> = {}) => {
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress: address,
      destroy: () => {
        state.isOpen = false;
        close(() => socket.emit("close"));
      },
    }) as unknown as Socket & { destroyed: boolean };
    const state = { isOpen: true, octets: 0, sealed: 0 };
    const connection: Connection = {
      socket,
      from: address,
      address,
      requests: 0,
      idleSince: now,
      octetsRead: () => state.octets,
      sealedOctetsRead: () => state.octets + state.sealed,
      allow: () => {},
      close: () => socket.destroy(),
      abort: () => socket.destroy(),
      ...change,
    };
    return { ...state, connection, state, isAdmitted: connections.admit(connection) };
  };
  return { connections, reached, pass, open };
}

describe("the connections of a server:", () => {
  test("at the bound of its address, a new connection replaces the one that has had no request for longest", () => {
    const { open, pass } = start({ connections_per_address: 2 });
    const [first, second] = [open("a"), open("a")];
    pass(10);
    first.connection.idleSince = 10;
    expect(open("a").isAdmitted).toBe(true);
    expect([first.state.isOpen, second.state.isOpen]).toEqual([true, false]);
  });

  test("where every connection has a request, a new one replaces the oldest of the address with the most connections", () => {
    const { open, reached } = start({ connections: 3 });
    const busy = ["a", "a", "b"].map((address) => open(address, { requests: 1 }));
    expect(open("c", { requests: 1 }).isAdmitted).toBe(true);
    expect(busy.map(({ state }) => state.isOpen)).toEqual([false, true, true]);
    for (const address of ["a", "b", "c"]) expect(open(address).isAdmitted).toBe(false);
    expect(reached).toEqual(["connections", "connections", "connections"]);
  });

  test("a gateway's connections do not count for its address, and strangers at that address do not keep it out", () => {
    const { connections, open, reached } = start({ connections_per_address: 2 });
    const gateway = [open("a"), open("a")];
    for (const { connection } of gateway) connections.recount(connection, "gateway");
    const strangers = [open("a", { requests: 1 }), open("a", { requests: 1 })];
    const next = open("a");
    expect(next.isAdmitted).toBe(true);
    expect(strangers.map(({ state }) => state.isOpen)).toEqual([false, true]);
    expect(gateway.map(({ state }) => state.isOpen)).toEqual([true, true]);
    expect(reached).toEqual([]);
    for (const { connection } of gateway) connection.abort();
    next.connection.requests = 1;
    expect(open("a").isAdmitted).toBe(false);
  });

  test("after a request found no room, connections of its network may send 8 at once, and twice as many after each second", () => {
    const { connections, open, pass } = start({});
    const [stranger, gateway, other] = [
      open("192.0.2.1").connection,
      open("192.0.2.2").connection,
      open("198.51.100.1").connection,
    ];
    const all = [stranger, gateway, other];
    connections.recount(gateway, "gateway");
    const atOnce = () => all.map((each) => connections.throttled.requestsAtOnce(each));
    connections.throttled.throttle(gateway);
    expect(atOnce()).toEqual([100, 100, 100]);
    connections.throttled.throttle(stranger);
    expect(atOnce()).toEqual([8, 100, 100]);
    const later = [16, 32, 64, 100].map((requests) => [requests, 100, 100]);
    for (const each of later) {
      pass(1000);
      expect(atOnce()).toEqual(each);
    }
  });

  test("where the connections of a network could send more than a quarter of all requests, each may send 8 at once", () => {
    const { open } = start({});
    const all = Array.from({ length: 6 }, (_, i) => {
      const allowed: number[] = [];
      open(`192.0.2.${i}`, { allow: (requests) => void allowed.push(requests) });
      return allowed;
    });
    expect(all).toEqual(Array(6).fill([8]));
  });

  test("an address with far fewer connections than others of its network may send as many requests as usual", () => {
    const { connections, open } = start({});
    const bystander = open("192.0.2.2").connection;
    const strangers = Array.from({ length: 20 }, () => open("192.0.2.1").connection);
    connections.throttled.throttle(bystander);
    const atOnce = [bystander, ...strangers].map((each) =>
      connections.throttled.requestsAtOnce(each),
    );
    expect(atOnce).toEqual([100, ...Array(20).fill(8)]);
  });

  test("an address with far fewer connections that finds no room tells a slowed network nothing again", () => {
    const { connections, open } = start({});
    const bystander = open("192.0.2.2").connection;
    const allowed: number[] = [];
    const allow = (requests: number) => void allowed.push(requests);
    for (let i = 0; i < 20; i++) open("192.0.2.1", { allow });
    allowed.length = 0;
    for (let i = 0; i < 10; i++) connections.throttled.throttle(bystander);
    expect(allowed).toEqual([]);
  });

  test("a gateway's connection may send as many requests as usual beside strangers at its own address", () => {
    const { connections, open } = start({});
    const [gateway, ...strangers] = Array.from({ length: 21 }, () => open("192.0.2.1").connection);
    if (gateway) connections.recount(gateway, "gateway");
    const atOnce = [gateway, ...strangers].map(
      (each) => each && connections.throttled.requestsAtOnce(each),
    );
    expect(atOnce).toEqual([100, ...Array(20).fill(8)]);
  });

  test("a network may send as many requests as usual where another network has twice as many connections", () => {
    const { open } = start({});
    for (let i = 0; i < 12; i++) open(`192.0.2.${i}`);
    const allowed: number[] = [];
    const allow = (requests: number) => void allowed.push(requests);
    for (let i = 0; i < 6; i++) open(`198.51.100.${i}`, { allow });
    expect(allowed).toEqual([]);
    open("198.51.100.6");
    expect(allowed).toEqual(Array(6).fill(8));
  });

  test.each([{ connections_per_address: 8 }, { connections: 8 }])(
    "a long poll may wait while a quarter of the connections of its address are free (%o); one through a gateway always may",
    (limits) => {
      const { connections, open } = start(limits);
      const all = Array.from({ length: 7 }, () => open("a", { requests: 1 }).connection);
      const [first, second] = all as [Connection, Connection];
      expect(connections.mayLongPoll(second)).toBe(false);
      first.requests = 0;
      expect(connections.mayLongPoll(second)).toBe(true);
      first.requests = 1;
      for (const each of all) connections.recount(each, "gateway");
      expect(connections.mayLongPoll(second)).toBe(true);
    },
  );

  test("abuse does not close an address to new connections while a gateway has one there", () => {
    const { connections, open } = start({});
    const gateway = open("a");
    connections.recount(gateway.connection, "gateway");
    const stranger = open("a");
    connections.abort(stranger.connection);
    expect(connections.isBanned(stranger.connection.from)).toBe(false);
    gateway.connection.abort();
    expect(connections.isBanned(stranger.connection.from)).toBe(true);
  });

  test.each<[string, number, (() => void) | undefined]>([
    ["", 70, undefined],
    [", even if sockets take a while to close", 300, () => {}],
  ])(
    "beyond 64 connections that are closing, the first of them is destroyed%s",
    (_, count, close) => {
      const { open } = start({ connections_per_address: 1 }, close);
      // Their peers do not close them.
      const all = Array.from({ length: count }, () => open("a", { close: () => {} }));
      expect(all.findIndex(({ state }) => state.isOpen)).toBe(count - 65);
      expect(all.filter(({ state }) => state.isOpen)).toHaveLength(65);
    },
  );

  test("at the bound of all, a new connection replaces one without a request, of the address with the most connections", () => {
    const { open } = start({ connections: 3 });
    const [flooding, , honest] = [open("a"), open("a"), open("b")];
    expect(open("c").isAdmitted).toBe(true);
    expect([flooding.state.isOpen, honest.state.isOpen]).toEqual([false, true]);
  });

  test("connections of many addresses of one network are replaced before those of a single address of another network", () => {
    const { open } = start({ connections: 20 });
    const honest = [1, 2, 3].map(() => open("192.0.2.1", { requests: 1 }));
    for (let i = 0; i < 100; i++) {
      const stranger = open(`2001:db8:1:${i.toString(16)}::/64`, { requests: i % 2 });
      expect(stranger.isAdmitted).toBe(true);
    }
    expect(honest.every(({ state }) => state.isOpen)).toBe(true);
  });

  test("an address that has a connection gets no other, unless it takes it from a network that has at least two more", () => {
    const { open } = start({ connections: 4 });
    const busy = [1, 2, 3, 4].map((i) =>
      open(i < 3 ? `192.0.2.${i}` : `198.51.100.${i}`, { requests: 1 }),
    );
    expect(open("198.51.100.3", { requests: 1 }).isAdmitted).toBe(false);
    expect(busy.every(({ state }) => state.isOpen)).toBe(true);
  });

  test.each([
    ["connections_per_address", { connections_per_address: 1 }],
    ["connections", { connections: 1 }],
  ])(
    "a new connection is refused where all others that count for %s have a request",
    (limit, limits) => {
      const { open, connections, reached } = start(limits);
      const busy = open("a");
      connections.begin(busy.connection);
      const late = open("a");
      expect([late.isAdmitted, late.state.isOpen, busy.state.isOpen]).toEqual([false, false, true]);
      expect(reached).toEqual([limit]);
    },
  );

  test("a connection closes once it has been without a request for too long, and no sooner", () => {
    const { open, pass, connections } = start({ idle_timeout: 1000 });
    const [idle, busy] = [open("a"), open("a")];
    connections.begin(busy.connection);
    pass(1000);
    expect(idle.state.isOpen).toBe(true);
    pass(1);
    expect([idle.state.isOpen, busy.state.isOpen]).toEqual([false, true]);
    connections.end(busy.connection);
    pass(1000);
    expect(busy.state.isOpen).toBe(true);
    pass(1);
    expect([busy.state.isOpen, connections.count]).toEqual([false, 0]);
  });

  test("a connection that sends far more records of TLS than its octets need is cut, and its address refused for a minute", () => {
    const { open, pass, connections } = start({});
    const [flood, honest] = [open("a"), open("b")];
    flood.state.sealed = 300_000;
    honest.state.sealed = 250_000;
    pass(1_000);
    expect([flood.state.isOpen, honest.state.isOpen]).toEqual([false, true]);
    pass(58_000);
    expect(connections.isBanned("a")).toBe(true);
    pass(2_000);
    expect(connections.isBanned("a")).toBe(false);
  });

  test("a connection that sends far more octets than its requests explain is cut, and its address refused for five seconds", () => {
    const { open, pass, connections, reached } = start({});
    const [flood, honest] = [open("a"), open("b")];
    for (let i = 0; i < 100; i++) connections.begin(honest.connection);
    flood.state.octets = 1_000_000;
    honest.state.octets = 1_000_000;
    pass(1000);
    expect([flood.state.isOpen, honest.state.isOpen]).toEqual([false, true]);
    expect(reached).toEqual(["abuse"]);
    expect(connections.isBanned(flood.connection.from)).toBe(true);
    expect(connections.isBanned(honest.connection.from)).toBe(false);
    pass(5000);
    expect(connections.isBanned(flood.connection.from)).toBe(false);
  });

  test("a connection is cut after hundreds of resets or pings in a second, and not after dozens", () => {
    const { open, pass, connections } = start({});
    const [flood, honest] = [open("a"), open("b")];
    for (let i = 0; i < 200; i++) connections.countControlFrame(flood.connection);
    for (let second = 0; second < 10; second++) {
      for (let i = 0; i < 100; i++) connections.countControlFrame(honest.connection);
      pass(1000);
    }
    expect([flood.state.isOpen, honest.state.isOpen]).toEqual([false, true]);
  });
});
