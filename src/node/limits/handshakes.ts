import type { Socket } from "node:net";
import { addressOf } from "../../foundation/peer-address.ts";
import { FairQueue } from "./fair-queue.ts";
import type { LimitReached, Limits } from "./limits.ts";

/** The most sockets that wait for a handshake, for each handshake that may be under way. */
const waitingForEach = 4;

/** Begins the handshake of a socket, and calls `done` when it has succeeded or failed. */
export type BeginHandshake = (socket: Socket, done: () => void) => void;

/** The handshakes of one port: bounded in number, in time, and for each address. */
export class Handshakes {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #begin: BeginHandshake;
  readonly #queue: FairQueue;
  readonly #sockets = new Set<Socket>();

  constructor(limits: Limits, reached: LimitReached, begin: BeginHandshake) {
    const { handshakes, handshakes_per_address } = limits;
    this.#limits = limits;
    this.#reached = reached;
    this.#begin = begin;
    this.#queue = new FairQueue({
      atWork: handshakes,
      atWorkPerAddress: handshakes_per_address,
      waiting: waitingForEach * handshakes,
      waitingPerAddress: waitingForEach * handshakes_per_address,
    });
  }

  /** Begins the handshake of a new socket now or later, or destroys the socket if too many wait. */
  take(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    const drop = (limit: "handshakes" | "handshakes_per_address"): void => {
      this.#reached(limit);
      socket.destroy();
    };
    const limit = this.#queue.take(
      addressOf(socket.remoteAddress),
      (done) => this.#start(socket, done),
      () => drop("handshakes"),
    );
    if (limit) drop(limit === "all" ? "handshakes" : "handshakes_per_address");
  }

  /** Destroys every socket that has not completed its handshake. */
  close(): void {
    this.#queue.clear();
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
    const end = (): void => {
      clearTimeout(timer);
      this.#sockets.delete(socket);
      socket.off("close", end);
      done();
    };
    socket.once("close", end);
    this.#begin(socket, end);
  }
}
