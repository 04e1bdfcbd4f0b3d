import * as z from "zod/mini";
import { durationMilliseconds } from "../../foundation/duration.ts";

/** How much of one process its callers may hold at once. Addresses are those of {@link addressOf}. */
export interface Limits {
  /** Established connections, in all and of one address. */
  readonly connections: number;
  readonly connections_per_address: number;
  /** Connections whose handshake is under way, in all and of one address. Others wait for their turn. */
  readonly handshakes: number;
  readonly handshakes_per_address: number;
  /** Milliseconds for a whole handshake, and for the head of a first request. */
  readonly handshake_timeout: number;
  /** Requests under way on one connection of HTTP/2, and in all. */
  readonly streams_per_connection: number;
  readonly streams: number;
  /** Requests that are worked on at once, in all and of one address. Others wait for their turn. */
  readonly requests_at_work: number;
  readonly requests_at_work_per_address: number;
  /** Milliseconds in which a request must arrive whole, and in which an answer must get on. */
  readonly progress_timeout: number;
  /** Milliseconds after which a connection without a request is closed. */
  readonly idle_timeout: number;
  /** Mebibytes that the process may hold before it takes on no more work. */
  readonly memory: number;
}

const count = (usual: number) =>
  z._default(z.int().check(z.minimum(1), z.maximum(1_000_000)), usual);

/** A timer of Node's holds no more than 2^31 - 1 ms. */
const duration = (usual: string) =>
  z.prefault(durationMilliseconds.check(z.minimum(100), z.maximum(2 ** 31 - 1)), usual);

const members = {
  connections: count(512),
  connections_per_address: count(128),
  handshakes: count(64),
  handshakes_per_address: count(16),
  handshake_timeout: duration("10s"),
  streams_per_connection: count(100),
  streams: count(2000),
  requests_at_work: count(128),
  requests_at_work_per_address: count(32),
  progress_timeout: duration("10s"),
  idle_timeout: duration("30m"),
  memory: count(224),
};

const form = z.strictObject(members);

/** The table `LIMITS`. docs/limits.md says what each member bounds. */
export const limitsTable: z.ZodMiniType<Limits, object | undefined> = z.prefault(form, {});

/** What holds where the operator says nothing. */
export const usualLimits: Limits = form.parse({});

/** The names of the members, in the order of the table in docs/limits.md. */
export const limitNames: readonly string[] = Object.keys(members);

/** What a caller ran into: the label of the metric, and what a log line names. */
export type Limit = keyof Limits | "abuse";

/** Told of everything that is turned away. */
export type LimitReached = (limit: Limit) => void;
