import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { SecretSource } from "../secrets/secret-source.ts";
import { ChangedNames } from "./changed-names.ts";
import type { RequestOutcome } from "./state-of-the-world.ts";

/** One of the two protocols, over one stream. */
export interface Exchange<Request, Response> {
  readonly watched: ReadonlySet<string>;
  receive(request: Request): RequestOutcome;
  /** The response to a request for these resources, or `undefined` if the client has them already. */
  respond(names: readonly string[]): Promise<Response | undefined>;
  /** The response that nobody asked for, or `undefined` if the client has the resource as it is. */
  push(name: string): Promise<Response | undefined>;
}

/**
 * Answers requests and pushes changes, one resource a push, until the client ends the stream. A
 * secret that cannot be had ends it too: the client keeps what it has and comes back in its own time.
 *
 * It waits for each response to be written, so that a client which does not read costs no memory.
 */
export async function* discoveryStream<Request, Response>(
  requests: AsyncIterable<Request>,
  exchange: Exchange<Request, Response>,
  source: SecretSource,
  log: OperationLog,
): AsyncGenerator<Response> {
  const changed = new ChangedNames(source);
  const incoming = requests[Symbol.asyncIterator]();
  let next = nextOf(incoming);
  try {
    for (;;) {
      const event = await Promise.race([next, changed.any()]);
      if (event?.done) return;
      if (event) next = nextOf(incoming);
      const response = event
        ? await answer(exchange, event.value, changed, log)
        : await push(exchange, changed.take());
      if (response) yield response;
    }
  } finally {
    changed.watchOnly(new Set());
  }
}

/** A client that goes away while nobody waits for its next request is no unhandled rejection. */
function nextOf<T>(incoming: AsyncIterator<T>): Promise<IteratorResult<T>> {
  const next = incoming.next();
  next.catch(() => undefined);
  return next;
}

async function answer<Request, Response>(
  exchange: Exchange<Request, Response>,
  request: Request,
  changed: ChangedNames,
  log: OperationLog,
): Promise<Response | undefined> {
  const result = exchange.receive(request);
  if (result.outcome === "refused") throw new ConnectError(result.why, Code.InvalidArgument);
  if (result.outcome === "rejected") {
    log.operation({ event: "sds-rejected", level: "warning", detail: result.detail.slice(0, 500) });
  }
  // Watched before it is loaded: what changes meanwhile is pushed afterwards.
  changed.watchOnly(exchange.watched);
  if (result.outcome !== "answer") return undefined;
  return await exchange.respond(result.names).catch((error) => refuse(result.names, error));
}

async function push<Request, Response>(
  exchange: Exchange<Request, Response>,
  name: string | undefined,
): Promise<Response | undefined> {
  if (name === undefined) return undefined;
  return await exchange.push(name).catch((error) => refuse([name], error));
}

function refuse(names: readonly string[], error: unknown): never {
  const why = `failed to generate secret for ${names.join(", ")}: ${messageOf(error)}`;
  throw new ConnectError(why, Code.Unknown, undefined, undefined, error);
}
