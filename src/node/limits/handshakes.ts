import type { Socket } from "node:net";
import { CallerAddress } from "../../foundation/shares.ts";
import type { Connections } from "./connections.ts";
import { type FairLimits, FairQueue, type Work } from "./fair-queue.ts";
import { type LimitReached, type Limits, longBanMilliseconds, turnTimeLimitOf } from "./limits.ts";

/**
 * The most sockets that wait for a handshake, for each handshake that may be under way. A gateway has one address, and
 * opens a connection for each of its {@link usualLimits} `requests_at_work`.
 */
const waitingForEach = 8;

/**
 * A failed handshake with more octets counts as abuse: a leaf of ML-DSA-87 and what it signs have less. OpenSSL
 * verifies each certificate that a stranger sends, and a long chain takes it a third of a second.
 */
const plausibleOctets = 16 * 1024;

/** A handshake computes for about a millisecond. Other handshakes continue between two ticks. */
const inOneTick = { all: 8, address: 2 };

const turnsOf = (limits: Limits): FairLimits => ({
  underWay: limits.handshakes,
  underWayPerAddress: limits.handshakes_per_address,
  waiting: waitingForEach * limits.handshakes,
  waitingPerAddress: waitingForEach * limits.handshakes_per_address,
  inOneTick: inOneTick,
  timeLimit: turnTimeLimitOf(limits.handshake_timeout),
});

/** Begins the handshake of a socket, and calls `done` when it ends, unless the socket closes first. */
export type BeginHandshake = (socket: Socket, done: (isAcceptable: boolean) => void) => void;

/** The handshakes of one port: bounded in number, in time, and for each address. */
export class Handshakes {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #begin: BeginHandshake;
  readonly #ban: Connections["ban"];
  readonly #queue: FairQueue;
  readonly #sockets = new Set<Socket>();

  /** @param ban Bans an address because of abuse. */
  constructor(
    limits: Limits,
    reached: LimitReached,
    begin: BeginHandshake,
    ban: Connections["ban"],
  ) {
    this.#ban = ban;
    this.#limits = limits;
    this.#reached = reached;
    this.#begin = begin;
    this.#queue = new FairQueue(() => turnsOf(limits));
  }

  /** Begins the handshake of a new socket now or later, or destroys the socket if too many wait. */
  take(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    const drop = (limit: "handshakes" | "handshakes_per_address"): void => {
      this.#reached(limit);
      socket.destroy();
    };
    const work: Work = {
      address: CallerAddress.of(socket.remoteAddress),
      begin: (done) => this.#start(socket, done),
      shed: () => drop("handshakes"),
    };
    const limit = this.#queue.take(work);
    if (limit) drop(limit === "all" ? "handshakes" : "handshakes_per_address");
    else socket.once("close", () => this.#queue.withdraw(work));
  }

  /** Destroys every socket that has not completed its handshake. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #start(socket: Socket, done: () => void): void {
    if (socket.destroyed) {
      done();
      return;
    }
    const timer = setTimeout(() => {
      this.#reached("handshake_timeout");
      socket.destroy();
    }, this.#limits.handshake_timeout);
    const end = (isAcceptable: boolean): void => {
      clearTimeout(timer);
      this.#sockets.delete(socket);
      socket.off("close", fail);
      if (!isAcceptable && socket.bytesRead > plausibleOctets) this.#refuseAll(socket);
      done();
    };
    const fail = (): void => end(false);
    socket.once("close", fail);
    this.#begin(socket, end);
  }

  /** Bans the address of a socket, and destroys its other sockets, whose handshakes may cost as much. */
  #refuseAll({ remoteAddress }: Socket): void {
    const address = CallerAddress.of(remoteAddress);
    this.#ban(address, longBanMilliseconds);
    for (const socket of this.#sockets)
      if (CallerAddress.of(socket.remoteAddress) === address) socket.destroy();
  }
}
