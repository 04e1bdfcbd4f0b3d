import type { Socket } from "node:net";
import { addressOf } from "../../foundation/peer-address.ts";
import type { LimitReached, Limits } from "./limits.ts";
import { first, foremost, hasMore, isLarger, type Share, Shares } from "./shares.ts";

/** An established connection. */
export interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** Requests under way. */
  requests: number;
  /** When the last request ended, or the connection began. */
  idleSince: number;
  /** Octets that the peer has sent. */
  readonly octetsRead: () => number;
  /** Takes no more requests, and lets those under way end. */
  readonly close: () => void;
  /** Ends it now, and reads no further in what has arrived. */
  readonly cut: () => void;
}

/** The traffic of a connection since the last sweep. */
interface Traffic {
  readonly octets: number;
  requests: number;
  vain: number;
}

/** The most events in a second that cost work and want no answer: resets, pings, settings. */
const plausibleVain = 200;

/** The most octets that a peer may send in a second, and for each request that came in it. */
const plausibleOctets = { aSecond: 256 * 1024, aRequest: 96 * 1024 };

/** How long an address is refused after a connection of it was cut for abuse, in milliseconds. */
const penaltyMilliseconds = 5_000;

/** How long a dismissed connection may take to end, in milliseconds, and how many may at once. */
const leaveMilliseconds = 1_000;
const leavingAtOnce = 64;

/** The connections of one address, and their number beside that of its network. */
interface Lane {
  readonly share: Share<"connections">;
  readonly members: Set<Connection>;
}

const newTraffic = (octets: number): Traffic => ({ octets, requests: 0, vain: 0 });

/**
 * The established connections of one server, bounded in number. When its address is full, a new
 * connection replaces the longest idle one of that address. When the server is full, it replaces the
 * longest idle one of the network with the most connections, and there of the address with the most. If each has
 * a request, it replaces the oldest, unless its own address has one already, and the other has no two more.
 */
export class Connections {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #lanes = new Map<string, Lane>();
  readonly #shares = new Shares({ connections: 0 });
  readonly #traffic = new WeakMap<Connection, Traffic>();
  readonly #penalties = new Map<string, number>();
  /** Oldest first. */
  readonly #all = new Set<Connection>();
  readonly #leaving = new Set<Socket>();

  constructor(limits: Limits, reached: LimitReached, clock: () => number) {
    this.#limits = limits;
    this.#reached = reached;
    this.#clock = clock;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Whether the address of a new socket is refused, because of recent abuse. */
  isPenalized({ remoteAddress }: Socket): boolean {
    return this.#clock() < (this.#penalties.get(addressOf(remoteAddress)) ?? 0);
  }

  /** @returns Whether there is room. Otherwise it destroys the connection. */
  admit(connection: Connection): boolean {
    const { connections, connections_per_address } = this.#limits;
    const own = this.#lanes.get(connection.address);
    if (own && own.members.size >= connections_per_address && !this.#makeRoom(own.members)) {
      return this.#refuse(connection, "connections_per_address");
    }
    if (this.count >= connections && !this.#makeRoomBeside(this.#lanes.get(connection.address))) {
      return this.#refuse(connection, "connections");
    }
    this.#add(connection);
    return true;
  }

  /** Closes connections that have been idle for too long, and cuts those that send too much. */
  sweep(): void {
    const now = this.#clock();
    for (const [address, until] of this.#penalties)
      if (until <= now) this.#penalties.delete(address);
    for (const connection of [...this.#all]) this.#judge(connection, now);
  }

  #judge(connection: Connection, now: number): void {
    const { octets, requests } = this.#traffic.get(connection) ?? newTraffic(0);
    const read = connection.octetsRead();
    const { aSecond, aRequest } = plausibleOctets;
    this.#traffic.set(connection, newTraffic(read));
    if (read - octets > aSecond + aRequest * requests) {
      this.cut(connection);
      return;
    }
    const isIdle = connection.requests === 0;
    if (isIdle && now - connection.idleSince > this.#limits.idle_timeout) this.#dismiss(connection);
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
  cut(connection: Connection): void {
    this.#reached("abuse");
    this.#penalties.set(connection.address, this.#clock() + penaltyMilliseconds);
    connection.cut();
  }

  #add(connection: Connection): void {
    const { socket, address } = connection;
    const lane = this.#lanes.get(address) ?? this.#newLane(address);
    lane.members.add(connection);
    this.#shares.count(lane.share, "connections", 1);
    this.#traffic.set(connection, newTraffic(connection.octetsRead()));
    this.#all.add(connection);
    socket.once("close", () => this.#remove(connection));
  }

  #remove(connection: Connection): void {
    const lane = this.#lanes.get(connection.address);
    if (!lane?.members.delete(connection)) return;
    this.#all.delete(connection);
    this.#shares.count(lane.share, "connections", -1);
    if (lane.members.size > 0) return;
    this.#lanes.delete(connection.address);
    this.#shares.close(lane.share);
  }

  #newLane(address: string): Lane {
    const lane = { share: this.#shares.open(address), members: new Set<Connection>() };
    this.#lanes.set(address, lane);
    return lane;
  }

  #refuse({ socket }: Connection, limit: "connections" | "connections_per_address"): false {
    this.#reached(limit);
    socket.destroy();
    return false;
  }

  #makeRoom(
    among: Iterable<Connection>,
    isSuch: (each: Connection) => boolean = () => true,
  ): boolean {
    const longest = foremost(
      among,
      (one, other) => one.idleSince < other.idleSince,
      (each) => each.requests === 0 && isSuch(each),
    );
    if (longest) this.#dismiss(longest);
    return longest !== undefined;
  }

  /** @param own The connections at the address of the new one, if there are any. */
  #makeRoomBeside(own: Lane | undefined): boolean {
    const isMore = (one: Lane, other: Lane) => isLarger("connections", one.share, other.share);
    const most = foremost(this.#lanes.values(), isMore);
    if (!most) return false;
    // Several addresses may have as much.
    const isOfMost = ({ address }: Connection): boolean => {
      const lane = this.#lanes.get(address);
      return lane !== undefined && !isMore(most, lane);
    };
    if (this.#makeRoom(this.#all, isOfMost)) return true;
    if (own && !hasMore("connections", most.share, own.share)) return false;
    const oldest = first(this.#all, isOfMost);
    if (oldest) this.#dismiss(oldest);
    return oldest !== undefined;
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
