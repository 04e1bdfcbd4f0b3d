import type { Socket } from "node:net";
import { addressBehind } from "../../foundation/addresses.ts";
import { type LimitReached, type Limits, longPenaltyMilliseconds } from "./limits.ts";
import { foremost, isLarger, isLargerByTwo, Shares } from "./shares.ts";
import { SlowedNetworks } from "./slowed-networks.ts";
import { abuseIn, type ReadOctets, type Traffic, trafficOf } from "./traffic.ts";

/** An established connection. */
export interface Connection extends ReadOctets {
  readonly socket: Socket;
  /** The address of its peer. */
  readonly from: string;
  /** The address by which it counts: its peer's, unless that is a gateway. */
  address: string;
  /** Requests under way. */
  requests: number;
  /** When the last request ended, or the connection began. */
  idleSince: number;
  /** Has the peer send no more than so many requests at once. */
  readonly allow: (requests: number) => void;
  /** Takes no more requests, and lets those under way end. */
  readonly close: () => void;
  /** Ends it now, and reads no further in what has arrived. */
  readonly cut: () => void;
}

/** The most events in a second that cost work and want no answer: resets, pings, settings. */
const plausibleVain = 200;

/** How long an address is refused after a connection of it was cut for abuse, in milliseconds. */
const penaltyMilliseconds = 5_000;

/** How long a dismissed connection may take to end, in milliseconds, and how many may at once. */
const leaveMilliseconds = 1_000;
const leavingAtOnce = 64;

/**
 * The established connections of one server, bounded in number. A new connection at the bound of its address replaces
 * one of that address, which has had no request for longest. At the bound of all it replaces such a one of the largest
 * share: in the network with most connections, at the address with most. If each connection there has a request, it
 * replaces the oldest of them, provided that its own address has none or a share that is smaller by two.
 */
export class Connections {
  readonly slowed: SlowedNetworks;
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #shares = new Shares<Connection, "connections">({ connections: 0 });
  readonly #traffic = new WeakMap<Connection, Traffic>();
  readonly #penalties = new Map<string, number>();
  /** Oldest first. */
  readonly #all = new Set<Connection>();
  readonly #leaving = new Set<Socket>();
  /** The connections of gateways, by their addresses. */
  readonly #doorsAt = new Map<string, number>();

  constructor(limits: Limits, reached: LimitReached, clock: () => number) {
    this.#limits = limits;
    this.slowed = new SlowedNetworks(limits, this.#all, this.#shares);
    this.#reached = reached;
    this.#clock = clock;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Whether new sockets of an address are refused, because of recent abuse. */
  isPenalized(address: string): boolean {
    return this.#clock() < (this.#penalties.get(address) ?? 0) && !this.#doorsAt.has(address);
  }

  /** @returns Whether there is room. Otherwise it destroys the connection. */
  admit(connection: Connection): boolean {
    const { connections, connections_per_address } = this.#limits;
    const { address } = connection;
    const { members } = this.#shares.of(address);
    if (members.size >= connections_per_address && !this.#replaceIdle(members)) {
      const [oldest] = members;
      // The new one may be a gateway's, which the strangers at its address must not keep out.
      if (!oldest || !this.#doorsAt.has(address))
        return this.#refuse(connection, "connections_per_address");
      this.#dismiss(oldest);
    }
    if (this.count >= connections && !this.#replaceFor(address)) {
      return this.#refuse(connection, "connections");
    }
    this.#add(connection);
    this.slowed.slowIfMuch(connection);
    return true;
  }

  /**
   * Whether a caller may only wait, as a long poll does. A quarter of the connections of an address is for calls, since
   * a new one replaces none that waits. A gateway's have no such bound.
   */
  hasRoomToWait({ address, from }: Connection): boolean {
    const { connections, connections_per_address } = this.#limits;
    const most = Math.min(connections, connections_per_address);
    const busy = [...this.#shares.of(address).members].filter(({ requests }) => requests > 0);
    return address !== from || busy.length <= Math.max(1, 0.75 * most);
  }

  /** Counts a connection as one of a gateway from now on: not by the address, which strangers may share. */
  recount(connection: Connection, door: string): void {
    const { from, socket } = connection;
    const address = addressBehind(door, from);
    if (connection.address === address || !this.#shares.remove(connection, "connections")) return;
    if (connection.address === from) {
      this.#countDoor(from, 1);
      socket.once("close", () => this.#countDoor(from, -1));
    }
    connection.address = address;
    this.#shares.add(connection, "connections");
  }

  #countDoor(address: string, change: 1 | -1): void {
    const count = (this.#doorsAt.get(address) ?? 0) + change;
    if (count > 0) this.#doorsAt.set(address, count);
    else this.#doorsAt.delete(address);
  }

  /** Closes connections that have been idle for too long, and cuts those that send too much. */
  sweep(): void {
    const now = this.#clock();
    this.slowed.sweep();
    for (const [address, until] of this.#penalties)
      if (until <= now) this.#penalties.delete(address);
    for (const connection of [...this.#all]) this.#judge(connection, now);
  }

  #judge(connection: Connection, now: number): void {
    const abuse = abuseIn(connection, this.#traffic.get(connection));
    this.#traffic.set(connection, trafficOf(connection));
    const idle = connection.requests === 0 ? now - connection.idleSince : 0;
    if (abuse) this.cut(connection, abuse === "records" ? longPenaltyMilliseconds : undefined);
    else if (idle > this.#limits.idle_timeout) this.#dismiss(connection);
  }

  /** Counts a request, which allows the peer more octets. */
  begin(connection: Connection): void {
    connection.requests++;
    const traffic = this.#traffic.get(connection);
    if (traffic) traffic.requests++;
  }

  end(connection: Connection): void {
    connection.requests--;
    connection.idleSince = this.#clock();
  }

  /** Counts a request that the peer has reset, a ping, or settings. */
  countVain(connection: Connection): void {
    const traffic = this.#traffic.get(connection);
    if (traffic && ++traffic.vain === plausibleVain) this.cut(connection);
  }

  /** Ends a connection for abuse, and refuses its address for a while. */
  cut(connection: Connection, milliseconds?: number): void {
    this.penalize(connection.address, milliseconds);
    connection.cut();
  }

  penalize(address: string, milliseconds = penaltyMilliseconds): void {
    this.#reached("abuse");
    this.#penalties.set(address, this.#clock() + milliseconds);
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

  /** Dismisses the one that has had no request for longest. @returns Whether there was one. */
  #replaceIdle(among: Iterable<Connection>): boolean {
    const longest = foremost(
      among,
      (one, other) => one.idleSince < other.idleSince,
      ({ requests }) => requests === 0,
    );
    if (longest) this.#dismiss(longest);
    return longest !== undefined;
  }

  /** Dismisses a connection of the largest share, for a new one at this address. @returns Whether one may go. */
  #replaceFor(address: string): boolean {
    const ofLargest = this.#ofLargest();
    if (this.#replaceIdle(ofLargest)) return true;
    const [oldest] = ofLargest;
    if (!oldest) return false;
    const [largest, own] = [this.#shares.of(oldest.address), this.#shares.of(address)];
    if (own.members.size > 0 && !isLargerByTwo("connections", largest, own)) return false;
    this.#dismiss(oldest);
    return true;
  }

  /** The connections of the largest share, and of others that are as large: oldest first. */
  #ofLargest(): Connection[] {
    const largest = this.#shares.largest("connections");
    const isOfLargest = ({ address }: Connection): boolean =>
      largest !== undefined && !isLarger("connections", largest, this.#shares.of(address));
    return [...this.#all].filter(isOfLargest);
  }

  #dismiss(connection: Connection): void {
    const { socket } = connection;
    this.#remove(connection);
    connection.close();
    const timer = setTimeout(() => socket.destroy(), leaveMilliseconds);
    // In a flood those that leave would hold more memory than those that stay.
    this.#leaving.add(socket);
    socket.once("close", () => {
      clearTimeout(timer);
      this.#leaving.delete(socket);
    });
    const [oldest] = this.#leaving;
    if (oldest === undefined || this.#leaving.size <= leavingAtOnce) return;
    // It closes only later, and by then others leave too.
    this.#leaving.delete(oldest);
    oldest.destroy();
  }
}
