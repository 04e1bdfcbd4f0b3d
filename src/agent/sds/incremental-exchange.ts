import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import {
  type DeltaDiscoveryRequest,
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import type { SecretSource } from "../secrets/secret-source.ts";
import type { Exchange } from "./discovery-stream.ts";
import { Incremental } from "./incremental.ts";
import {
  requireSecretType,
  resourceVersion,
  secretTypeUrl,
  toSecretMessage,
} from "./secret-message.ts";
import type { RequestOutcome } from "./state-of-the-world.ts";

/**
 * The incremental protocol on one stream. The version of a resource is its hash, so it stays the same
 * when the agent restarts.
 */
export class IncrementalExchange
  implements Exchange<DeltaDiscoveryRequest, DeltaDiscoveryResponse>
{
  readonly #source: SecretSource;
  readonly #state = new Incremental();

  constructor(source: SecretSource) {
    this.#source = source;
  }

  get watched(): ReadonlySet<string> {
    return this.#state.watched;
  }

  receive(request: DeltaDiscoveryRequest): RequestOutcome {
    requireSecretType(request.typeUrl);
    return this.#state.receive(request);
  }

  async respond(names: readonly string[]): Promise<DeltaDiscoveryResponse | undefined> {
    const loaded = await Promise.all(names.map((name) => this.#load(name)));
    const resources = loaded.filter(({ name, version }) => !this.#state.hasVersion(name, version));
    for (const { name, version } of resources) this.#state.recordSent(name, version);
    if (resources.length === 0) return undefined;
    const nonce = randomUUID();
    return create(DeltaDiscoveryResponseSchema, { resources, typeUrl: secretTypeUrl, nonce });
  }

  push(name: string): Promise<DeltaDiscoveryResponse | undefined> {
    return this.respond([name]);
  }

  async #load(name: string) {
    const resource = toSecretMessage(name, await this.#source.load(name));
    return { name, version: resourceVersion(resource), resource };
  }
}
