import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import {
  type DiscoveryRequest,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import type { SecretSource } from "../secrets/secret-source.ts";
import type { Exchange } from "./discovery-stream.ts";
import {
  requireSecretType,
  resourceVersion,
  secretTypeUrl,
  toSecretMessage,
} from "./secret-message.ts";
import { type RequestOutcome, StateOfTheWorld } from "./state-of-the-world.ts";

/** Creates the responses of the state-of-the-world protocol, and numbers them across all streams. */
export class FullResponses {
  readonly #source: SecretSource;
  readonly #clock: () => Date;
  #count = 0;

  constructor({ source, clock }: { readonly source: SecretSource; readonly clock: () => Date }) {
    this.#source = source;
    this.#clock = clock;
  }

  async create(names: readonly string[]): Promise<DiscoveryResponse> {
    const load = async (name: string): Promise<Any> =>
      toSecretMessage(name, await this.#source.load(name));
    return create(DiscoveryResponseSchema, {
      resources: await Promise.all(names.map(load)),
      typeUrl: secretTypeUrl,
      versionInfo: `${this.#clock().toISOString()}/${++this.#count}`,
      nonce: randomUUID(),
    });
  }
}

/** The state-of-the-world protocol on one stream. */
export class FullExchange implements Exchange<DiscoveryRequest, DiscoveryResponse> {
  readonly #responses: FullResponses;
  readonly #state = new StateOfTheWorld();
  /** The version of each resource that was last sent to the client. */
  readonly #sent = new Map<string, string>();

  constructor(responses: FullResponses) {
    this.#responses = responses;
  }

  get watched(): ReadonlySet<string> {
    return this.#state.watched;
  }

  receive(request: DiscoveryRequest): RequestOutcome {
    requireSecretType(request.typeUrl);
    return this.#state.receive(request);
  }

  async respond(names: readonly string[]): Promise<DiscoveryResponse> {
    const response = await this.#responses.create(names);
    this.#recordSent(names, response);
    return response;
  }

  async push(name: string): Promise<DiscoveryResponse | undefined> {
    const response = await this.#responses.create([name]);
    const [resource] = response.resources;
    if (resource && this.#sent.get(name) === resourceVersion(resource)) return undefined;
    this.#recordSent([name], response);
    return response;
  }

  #recordSent(names: readonly string[], { nonce, resources }: DiscoveryResponse): void {
    this.#state.recordSent(nonce);
    names.forEach((name, i) => {
      const resource = resources[i];
      if (resource) this.#sent.set(name, resourceVersion(resource));
    });
  }
}
