import { Code, ConnectError, type ContextValues, type ServiceImpl } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import type {
  DiscoveryRequest,
  DiscoveryResponse,
} from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import type { SecretDiscoveryService } from "../../gen/envoy/service/secret/v3/sds_pb.ts";
import type { SecretSource } from "../secrets/secret-source.ts";
import { Responses, requireSecretType, Subscription } from "./secret-subscriptions.ts";
import { type HoldNames, holdNames, takePermit } from "./socket-bounds.ts";

interface SecretDiscoveryPorts {
  readonly source: SecretSource;
  readonly clock: () => Date;
  readonly log: OperationLog;
}

/** Implements Envoy's SDS: the stream and the unary call. As in Istio, the incremental protocol is unimplemented. */
export function createSecretDiscovery(
  ports: SecretDiscoveryPorts,
): Omit<ServiceImpl<typeof SecretDiscoveryService>, "deltaSecrets"> {
  const responses = new Responses(ports);
  return {
    streamSecrets: (requests, { values }) => {
      const bounds = roomOf(values);
      const subscription = new Subscription(responses, bounds.take);
      return discoveryStream(requests, subscription, ports, bounds);
    },
    async fetchSecrets(request, { values }) {
      requireSecretType(request.typeUrl);
      const { take } = roomOf(values);
      const names = [...new Set(request.resourceNames)];
      values.get(holdNames)(names);
      return await responses.create(names, take).catch((error) => refuse(names, error));
    },
  };
}

/** The bounds of one stream on unread responses and on names. */
interface StreamBounds {
  readonly take: () => Promise<void>;
  readonly leave: () => void;
  readonly hold: HoldNames;
}

function roomOf(values: ContextValues): StreamBounds {
  let leave = (): void => {};
  const take = async (): Promise<void> => {
    leave = await values.get(takePermit)();
  };
  return { take, leave: () => leave(), hold: values.get(holdNames) };
}

/**
 * Answers requests and pushes changes, one resource in each push, until the client ends the stream. A secret that
 * cannot be loaded ends the stream too. The client then keeps its secrets and reconnects.
 *
 * The next response is created once the last one is written, so a client that does not read costs the memory of two.
 */
async function* discoveryStream(
  requests: AsyncIterable<DiscoveryRequest>,
  subscription: Subscription,
  { source, log }: SecretDiscoveryPorts,
  bounds: Omit<StreamBounds, "take">,
): AsyncGenerator<DiscoveryResponse> {
  const changed = new ChangedNames(source);
  const incoming = requests[Symbol.asyncIterator]();
  let next = nextOf(incoming);
  try {
    for (;;) {
      const event = await Promise.race([next, changed.wait()]);
      if (event?.done) return;
      if (event) next = nextOf(incoming);
      const response = event
        ? await answer(subscription, event.value, changed, { log, room: bounds })
        : await push(subscription, changed.shift());
      if (response) yield response;
      bounds.leave();
    }
  } finally {
    changed.watchOnly(new Set());
  }
}

/** The next request. Its rejection counts as handled: nobody awaits it once the stream has ended. */
function nextOf<T>(incoming: AsyncIterator<T>): Promise<IteratorResult<T>> {
  const next = incoming.next();
  next.catch(() => undefined);
  return next;
}

async function answer(
  subscription: Subscription,
  request: DiscoveryRequest,
  changed: ChangedNames,
  { log, room }: { readonly log: OperationLog; readonly room: Pick<StreamBounds, "hold"> },
): Promise<DiscoveryResponse | undefined> {
  const result = subscription.receive(request);
  if (result.outcome === "refused") throw new ConnectError(result.reason, Code.InvalidArgument);
  if (result.outcome === "rejected") {
    log.operation({ event: "sds-rejected", level: "warning", detail: result.detail.slice(0, 500) });
  }
  room.hold(subscription.watched);
  // The watch begins before the load, so a change during the load is pushed afterwards.
  changed.watchOnly(subscription.watched);
  if (result.outcome !== "answer") return undefined;
  return await subscription.respond(result.names).catch((error) => refuse(result.names, error));
}

async function push(
  subscription: Subscription,
  name: string | undefined,
): Promise<DiscoveryResponse | undefined> {
  if (name === undefined) return undefined;
  return await subscription.push(name).catch((error) => refuse([name], error));
}

function refuse(names: readonly string[], error: unknown): never {
  const sentence = `failed to generate secret for ${names.join(", ")}: ${messageOf(error)}`;
  throw new ConnectError(sentence, Code.Unknown, undefined, undefined, error);
}

/** The watched names whose secrets have changed since their last push, each at most once. */
class ChangedNames {
  readonly #source: SecretSource;
  readonly #watches = new Map<string, () => void>();
  readonly #changed = new Set<string>();
  #wake: () => void = () => undefined;

  constructor(source: SecretSource) {
    this.#source = source;
  }

  watchOnly(names: ReadonlySet<string>): void {
    for (const [name, unwatch] of this.#watches) {
      if (names.has(name)) continue;
      unwatch();
      this.#watches.delete(name);
      this.#changed.delete(name);
    }
    for (const name of names) {
      if (!this.#watches.has(name)) this.#watches.set(name, this.#watch(name));
    }
  }

  async wait(): Promise<undefined> {
    if (this.#changed.size > 0) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  shift(): string | undefined {
    const [name] = this.#changed;
    if (name !== undefined) this.#changed.delete(name);
    return name;
  }

  #watch(name: string): () => void {
    return this.#source.watch(name, () => {
      this.#changed.add(name);
      this.#wake();
    });
  }
}
