import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { SecretSource } from "../secrets/secret-source.ts";
import { ChangedNames } from "./changed-names.ts";
import type { RequestOutcome } from "./state-of-the-world.ts";

/** One of the two protocols of discovery on one stream. */
export interface Exchange<Request, Response> {
  readonly watched: ReadonlySet<string>;
  receive(request: Request): RequestOutcome;
  /** The response to a request for these resources, or `undefined` if the client has all of them. */
  respond(names: readonly string[]): Promise<Response | undefined>;
  /** The response for a changed resource, or `undefined` if the client has its current version. */
  push(name: string): Promise<Response | undefined>;
}

/**
 * Answers requests and pushes changes, one resource in each push, until the client ends the stream. A
 * secret that cannot be loaded ends the stream too. The client then keeps its secrets and reconnects.
 *
 * The generator waits until a response is written, so a client that does not read costs no memory.
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
      const event = await Promise.race([next, changed.wait()]);
      if (event?.done) return;
      if (event) next = nextOf(incoming);
      const response = event
        ? await answer(exchange, event.value, changed, log)
        : await push(exchange, changed.shift());
      if (response) yield response;
    }
  } finally {
    changed.watchOnly(new Set());
  }
}

/** The next request. Its rejection counts as handled even if the generator ends before it reads it. */
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
  if (result.outcome === "refused") throw new ConnectError(result.reason, Code.InvalidArgument);
  if (result.outcome === "rejected") {
    log.operation({ event: "sds-rejected", level: "warning", detail: result.detail.slice(0, 500) });
  }
  // The watch begins before the load, so a change during the load is pushed afterwards.
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
  const sentence = `failed to generate secret for ${names.join(", ")}: ${messageOf(error)}`;
  throw new ConnectError(sentence, Code.Unknown, undefined, undefined, error);
}
