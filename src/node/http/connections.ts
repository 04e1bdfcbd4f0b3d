import type { Socket } from "node:net";
import type { LimitReached, Limits } from "./limits.ts";
import { addressOf } from "./peer-address.ts";

/** A connection that counts. */
export interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** Requests under way. */
  requests: number;
  /** When the last of them ended, or the connection began. */
  idleSince: number;
  /** Octets that the peer has sent. */
  readonly octetsRead: () => number;
  /** Lets what is under way end, and takes no more. */
  readonly close: () => void;
}

/** What a connection has done since it was last looked at. */
interface Seen {
  readonly octets: number;
  requests: number;
  resets: number;
}

/** How many requests of a second a peer may take back before they are answered. */
const plausibleResets = 200;

/** How many octets of a second are above suspicion, and how many more for each request that came in it. */
const plausibleOctets = { aSecond: 256 * 1024, aRequest: 96 * 1024 };

/** How long an address is turned away after one of its connections was cut for abuse, in milliseconds. */
const penaltyMilliseconds = 5_000;

/** How long a connection that was told to end may take, in milliseconds. */
const leaveMilliseconds = 1_000;

/**
 * The established connections of one server. A newcomer that finds no room takes the place of the
 * connection that has been without a request for longest: of its own address, or, where all places are
 * taken, of the address that holds most of them.
 */
export class Connections {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #byAddress = new Map<string, Set<Connection>>();
  readonly #seen = new WeakMap<Connection, Seen>();
  readonly #penalties = new Map<string, number>();
  #count = 0;

  constructor(limits: Limits, reached: LimitReached, clock: () => number) {
    this.#limits = limits;
    this.#reached = reached;
    this.#clock = clock;
  }

  get count(): number {
    return this.#count;
  }

  /** Whether the address of a new socket is turned away for what it did a moment ago. */
  isPenalized({ remoteAddress }: Socket): boolean {
    return this.#clock() < (this.#penalties.get(addressOf(remoteAddress)) ?? 0);
  }

  /** @returns Whether there is room; otherwise the connection is none of the server's any more. */
  admit(connection: Connection): boolean {
    const { connections, connections_per_address } = this.#limits;
    const own = this.#byAddress.get(connection.address);
    if (own && own.size >= connections_per_address && !this.#makeRoom(own)) {
      return this.#refuse(connection, "connections_per_address");
    }
    if (this.#count >= connections && !this.#makeRoom(this.#largestAddress())) {
      return this.#refuse(connection, "connections");
    }
    this.#add(connection);
    return true;
  }

  /** Closes what has been idle for too long, and cuts what only sends. */
  sweep(): void {
    const now = this.#clock();
    for (const [address, until] of this.#penalties)
      if (until <= now) this.#penalties.delete(address);
    for (const own of [...this.#byAddress.values()]) {
      for (const connection of [...own]) this.#look(connection, now);
    }
  }

  #look(connection: Connection, now: number): void {
    const { octets, requests } = this.#seen.get(connection) ?? {
      octets: 0,
      requests: 0,
      resets: 0,
    };
    const read = connection.octetsRead();
    const { aSecond, aRequest } = plausibleOctets;
    this.#seen.set(connection, { octets: read, requests: 0, resets: 0 });
    if (read - octets > aSecond + aRequest * requests) {
      this.cut(connection);
      return;
    }
    const isIdle = connection.requests === 0;
    if (isIdle && now - connection.idleSince > this.#limits.idle_timeout) this.#dismiss(connection);
  }

  /** Counts a request, which makes room for its octets. */
  begin(connection: Connection): void {
    connection.requests++;
    const seen = this.#seen.get(connection);
    if (seen) seen.requests++;
  }

  end(connection: Connection): void {
    connection.requests--;
    connection.idleSince = this.#clock();
  }

  /** Counts a request that ended without an answer. */
  reset(connection: Connection): void {
    const seen = this.#seen.get(connection);
    if (seen && ++seen.resets === plausibleResets) this.cut(connection);
  }

  /** Ends a connection for what it does, and turns its address away for a while. */
  cut({ socket, address }: Connection): void {
    this.#reached("abuse");
    this.#penalties.set(address, this.#clock() + penaltyMilliseconds);
    socket.destroy();
  }

  #add(connection: Connection): void {
    const { socket, address } = connection;
    const own = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, own.add(connection));
    this.#seen.set(connection, { octets: connection.octetsRead(), requests: 0, resets: 0 });
    this.#count++;
    socket.once("close", () => this.#remove(connection));
  }

  #remove(connection: Connection): void {
    const own = this.#byAddress.get(connection.address);
    if (!own?.delete(connection)) return;
    this.#count--;
    if (own.size === 0) this.#byAddress.delete(connection.address);
  }

  #refuse({ socket }: Connection, limit: "connections" | "connections_per_address"): false {
    this.#reached(limit);
    socket.destroy();
    return false;
  }

  #makeRoom(among: ReadonlySet<Connection>): boolean {
    let longest: Connection | undefined;
    for (const each of among) {
      if (each.requests > 0) continue;
      if (!longest || each.idleSince < longest.idleSince) longest = each;
    }
    if (longest) this.#dismiss(longest);
    return longest !== undefined;
  }

  #largestAddress(): ReadonlySet<Connection> {
    let largest: ReadonlySet<Connection> = new Set();
    for (const each of this.#byAddress.values()) if (each.size > largest.size) largest = each;
    return largest;
  }

  #dismiss(connection: Connection): void {
    this.#remove(connection);
    connection.close();
    const timer = setTimeout(() => connection.socket.destroy(), leaveMilliseconds);
    connection.socket.once("close", () => clearTimeout(timer));
  }
}
