import type { Socket } from "node:net";
import { CallerAddress } from "../../foundation/shares.ts";
import { type LimitReached, type Limits, longBanMilliseconds } from "./limits.ts";
import { foremost, isLarger, isLargerByTwo, RankedShares } from "./ranked-shares.ts";
import { ThrottledNetworks } from "./throttled-networks.ts";
import { abuseIn, type ReadOctets, type Traffic, trafficOf } from "./traffic.ts";

/** An established connection of a caller or a gateway. */
export interface Connection extends ReadOctets {
  readonly socket: Socket;
  /** The address of its peer. */
  readonly from: string;
  /** The address to which it is counted: its peer's, unless that is a gateway. */
  address: string;
  /** How many requests are under way. */
  requests: number;
  /** When the last request ended, or the connection began. */
  idleSince: number;
  /** Bounds the peer's concurrent requests (SETTINGS_MAX_CONCURRENT_STREAMS). */
  readonly allow: (requests: number) => void;
  /** Accepts no more requests, and lets those under way end (GOAWAY). */
  readonly close: () => void;
  /** Ends it now, and reads nothing more of what has arrived. */
  readonly abort: () => void;
}

/** The most control frames in a second: resets, pings, settings. More are a flood, because each costs work (CVE-2023-44487). */
const plausibleControlFrames = 200;

/** How long an address is banned after one of its connections was aborted for abuse. */
const banMilliseconds = 5_000;

/** How long a connection may drain before it is destroyed, and how many may drain at once. */
const drainMilliseconds = 1_000;
const drainingAtOnce = 64;

/**
 * The established connections of one server, bounded in number. At the bound of its address, a new connection replaces
 * the one of that address that has been idle for longest. At the bound of all, it replaces the idlest of the largest
 * share. That is the share of the address with most connections in the network with most. If none in it is idle, the
 * oldest is replaced, but only if the new connection's address has none or a share smaller by two.
 */
export class Connections {
  readonly throttled: ThrottledNetworks;
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #shares = new RankedShares<Connection, "connections">({ connections: 0 });
  readonly #traffic = new WeakMap<Connection, Traffic>();
  readonly #bans = new Map<string, number>();
  /** All connections, oldest first. */
  readonly #all = new Set<Connection>();
  readonly #draining = new Set<Socket>();
  /** How many connections of gateways there are, by the address of their peer. */
  readonly #proxiesAt = new Map<string, number>();

  constructor(limits: Limits, reached: LimitReached, clock: () => number) {
    this.#limits = limits;
    this.throttled = new ThrottledNetworks(limits, this.#all, this.#shares);
    this.#reached = reached;
    this.#clock = clock;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Whether new sockets of an address are refused because of recent abuse. An address with a gateway is never banned. */
  isBanned(address: string): boolean {
    return this.#clock() < (this.#bans.get(address) ?? 0) && !this.#proxiesAt.has(address);
  }

  /**
   * Adds a new connection. At a bound, another one is drained for it, by the rules of {@link Connections}.
   *
   * @returns Whether it was added. Otherwise the connection is destroyed.
   */
  admit(connection: Connection): boolean {
    const { connections, connections_per_address } = this.#limits;
    const { address } = connection;
    const { members } = this.#shares.of(address);
    if (members.size >= connections_per_address && !this.#replaceIdle(members)) {
      const [oldest] = members;
      if (!oldest || !this.#proxiesAt.has(address))
        return this.#refuse(connection, "connections_per_address");
      // A gateway has this address. The new connection may be the gateway's, and other callers must not keep it out.
      this.#drain(oldest);
    }
    if (this.count >= connections && !this.#replaceFor(address)) {
      return this.#refuse(connection, "connections");
    }
    this.#add(connection);
    this.throttled.throttleIfLarge(connection);
    return true;
  }

  /**
   * Whether a request on this connection may wait as a long poll does. A new connection replaces no busy one. So at most
   * three quarters of the connections of an address may be busy with long polls, and a quarter is left for calls. A
   * gateway's connections have no such bound.
   */
  mayLongPoll({ address, from }: Connection): boolean {
    const { connections, connections_per_address } = this.#limits;
    const most = Math.min(connections, connections_per_address);
    const busy = [...this.#shares.of(address).members].filter(({ requests }) => requests > 0);
    return address !== from || busy.length <= Math.max(1, 0.75 * most);
  }

  /** Counts a connection to a gateway from now on, instead of to its address, which other callers may share. */
  recount(connection: Connection, proxy: string): void {
    const { from, socket } = connection;
    const address = CallerAddress.behind(proxy, from);
    if (connection.address === address || !this.#shares.remove(connection, "connections")) return;
    if (connection.address === from) {
      this.#countProxy(from, 1);
      socket.once("close", () => this.#countProxy(from, -1));
    }
    connection.address = address;
    this.#shares.add(connection, "connections");
  }

  #countProxy(address: string, change: 1 | -1): void {
    const count = (this.#proxiesAt.get(address) ?? 0) + change;
    if (count > 0) this.#proxiesAt.set(address, count);
    else this.#proxiesAt.delete(address);
  }

  /** Drains connections that have been idle for too long, aborts those that send too much, and ends bans. */
  sweep(): void {
    const now = this.#clock();
    this.throttled.sweep();
    for (const [address, until] of this.#bans) if (until <= now) this.#bans.delete(address);
    for (const connection of [...this.#all]) this.#judge(connection, now);
  }

  #judge(connection: Connection, now: number): void {
    const abuse = abuseIn(connection, this.#traffic.get(connection));
    this.#traffic.set(connection, trafficOf(connection));
    const idle = connection.requests === 0 ? now - connection.idleSince : 0;
    if (abuse) this.abort(connection, abuse === "records" ? longBanMilliseconds : undefined);
    else if (idle > this.#limits.idle_timeout) this.#drain(connection);
  }

  /** Records that a request began, which allows the peer more octets. */
  begin(connection: Connection): void {
    connection.requests++;
    const traffic = this.#traffic.get(connection);
    if (traffic) traffic.requests++;
  }

  end(connection: Connection): void {
    connection.requests--;
    connection.idleSince = this.#clock();
  }

  /** Counts a reset, a ping or settings. A connection that floods them is aborted, and its address banned. */
  countControlFrame(connection: Connection): void {
    const traffic = this.#traffic.get(connection);
    if (traffic && ++traffic.controlFrames === plausibleControlFrames) this.abort(connection);
  }

  /** Aborts a connection for abuse, and bans its address for `milliseconds`, by default five seconds. */
  abort(connection: Connection, milliseconds?: number): void {
    this.ban(connection.address, milliseconds);
    connection.abort();
  }

  ban(address: string, milliseconds = banMilliseconds): void {
    this.#reached("abuse");
    this.#bans.set(address, this.#clock() + milliseconds);
  }

  #add(connection: Connection): void {
    this.#shares.add(connection, "connections");
    this.#traffic.set(connection, trafficOf(connection));
    this.#all.add(connection);
    connection.socket.once("close", () => this.#remove(connection));
  }

  #remove(connection: Connection): void {
    this.#shares.remove(connection, "connections");
    this.#all.delete(connection);
  }

  #refuse({ socket }: Connection, limit: "connections" | "connections_per_address"): false {
    this.#reached(limit);
    socket.destroy();
    return false;
  }

  /** Drains the connection that has been idle for longest. @returns Whether one was idle. */
  #replaceIdle(among: Iterable<Connection>): boolean {
    const longest = foremost(
      among,
      (one, other) => one.idleSince < other.idleSince,
      ({ requests }) => requests === 0,
    );
    if (longest) this.#drain(longest);
    return longest !== undefined;
  }

  /** Drains a connection of the largest share, for a new one at this address. @returns Whether there was one to drain. */
  #replaceFor(address: string): boolean {
    const ofLargest = this.#ofLargest();
    if (this.#replaceIdle(ofLargest)) return true;
    const [oldest] = ofLargest;
    if (!oldest) return false;
    const [largest, own] = [this.#shares.of(oldest.address), this.#shares.of(address)];
    if (own.members.size > 0 && !isLargerByTwo("connections", largest, own)) return false;
    this.#drain(oldest);
    return true;
  }

  /** The connections of the largest share and of equally large ones, oldest first. */
  #ofLargest(): Connection[] {
    const largest = this.#shares.largest("connections");
    const isOfLargest = ({ address }: Connection): boolean =>
      largest !== undefined && !isLarger("connections", largest, this.#shares.of(address));
    return [...this.#all].filter(isOfLargest);
  }

  #drain(connection: Connection): void {
    const { socket } = connection;
    this.#remove(connection);
    connection.close();
    const timer = setTimeout(() => socket.destroy(), drainMilliseconds);
    // In a flood, draining connections would take more memory than established ones, so they are bounded as well.
    this.#draining.add(socket);
    socket.once("close", () => {
      clearTimeout(timer);
      this.#draining.delete(socket);
    });
    const [oldest] = this.#draining;
    if (oldest === undefined || this.#draining.size <= drainingAtOnce) return;
    // Removed here, because the event `close` comes later.
    this.#draining.delete(oldest);
    oldest.destroy();
  }
}
