import { createHash, randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  SecretSchema,
  SPIFFECertValidatorConfigSchema,
} from "../../gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";
import {
  type DiscoveryRequest,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import {
  type DomainRoots,
  loadAll,
  type Secret,
  type SecretSource,
} from "../secrets/secret-source.ts";

type RequestOutcome =
  | { readonly outcome: "refused"; readonly reason: string }
  | { readonly outcome: "rejected"; readonly detail: string }
  | { readonly outcome: "silent" }
  | { readonly outcome: "answer"; readonly names: readonly string[] };

const silent: RequestOutcome = { outcome: "silent" };

/** Creates the responses of SDS, with nonces that are unique across all streams. */
export class Responses {
  readonly #source: SecretSource;
  readonly #clock: () => Date;
  #count = 0;

  constructor({ source, clock }: { readonly source: SecretSource; readonly clock: () => Date }) {
    this.#source = source;
    this.#clock = clock;
  }

  /** @param takeRoom Waits until the client has read enough of the earlier responses. */
  async create(
    names: readonly string[],
    takeRoom: () => Promise<void>,
  ): Promise<DiscoveryResponse> {
    const secrets = await loadAll(this.#source, names, takeRoom);
    return create(DiscoveryResponseSchema, {
      resources: secrets.map((secret, i) => toResource(names[i] ?? "", secret)),
      typeUrl: secretTypeUrl,
      versionInfo: `${this.#clock().toISOString()}/${++this.#count}`,
      nonce: randomUUID(),
    });
  }
}

/** The secrets that one stream subscribes to, and the version of each that its client has. */
export class Subscription {
  readonly #responses: Responses;
  readonly #takeRoom: () => Promise<void>;
  readonly #state = new StateOfTheWorld();
  /** The version of each resource that was last sent to the client. */
  readonly #sent = new Map<string, string>();

  constructor(responses: Responses, takeRoom: () => Promise<void>) {
    this.#responses = responses;
    this.#takeRoom = takeRoom;
  }

  get watched(): ReadonlySet<string> {
    return this.#state.watched;
  }

  receive(request: DiscoveryRequest): RequestOutcome {
    requireSecretType(request.typeUrl);
    const outcome = this.#state.receive(request);
    for (const name of this.#sent.keys()) if (!this.watched.has(name)) this.#sent.delete(name);
    return outcome;
  }

  /** The response to a request for these resources. */
  async respond(names: readonly string[]): Promise<DiscoveryResponse> {
    const response = await this.#responses.create(names, this.#takeRoom);
    this.#recordSent(names, response);
    return response;
  }

  /** The response for a changed resource, or `undefined` if the client has its current version. */
  async push(name: string): Promise<DiscoveryResponse | undefined> {
    const response = await this.#responses.create([name], this.#takeRoom);
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

/**
 * The state of one stream of the state-of-the-world protocol, by the rules of istiod and pilot-agent (istio
 * pkg/xds/server.go shouldRespond).
 */
export class StateOfTheWorld {
  #hasNode = false;
  #watched: ReadonlySet<string> = new Set();
  #lastNonce = "";

  get watched(): ReadonlySet<string> {
    return this.#watched;
  }

  /** Records the nonce of a response before it is sent. */
  recordSent(nonce: string): void {
    this.#lastNonce = nonce;
  }

  receive(request: DiscoveryRequest): RequestOutcome {
    if (!this.#hasNode && !request.node?.id) {
      return { outcome: "refused", reason: "missing node information" };
    }
    this.#hasNode = true;
    // No answer: the client keeps its secrets, and gets the next version as a push.
    if (request.errorDetail) return { outcome: "rejected", detail: request.errorDetail.message };
    const requested = new Set(request.resourceNames);
    if (requested.size === 0) {
      this.#watched = requested;
      return silent;
    }
    const isFirst = request.responseNonce === "" || this.#watched.size === 0;
    if (!isFirst && request.responseNonce !== this.#lastNonce) return silent;
    const names = [...requested].filter((name) => isFirst || !this.#watched.has(name));
    this.#watched = requested;
    return names.length === 0 ? silent : { outcome: "answer", names };
  }
}

const secretTypeUrl = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/** Serializes a secret as the `tls.v3.Secret` that Envoy reads. */
export function toResource(name: string, secret: Secret): Any {
  return anyPack(SecretSchema, create(SecretSchema, { name, type: toType(secret) }));
}

function toType(secret: Secret): NonNullable<MessageInitShape<typeof SecretSchema>["type"]> {
  switch (secret.kind) {
    case "certificate":
      return {
        case: "tlsCertificate",
        value: {
          certificateChain: inline(secret.chainPem),
          privateKey: inline(secret.privateKeyPem),
        },
      };
    case "roots":
      return {
        case: "validationContext",
        value: {
          trustedCa: inline(secret.pem),
          ...(secret.revocation && {
            crl: inline(secret.revocation.pem),
            onlyVerifyLeafCertCrl: secret.revocation.isOfLeaves,
          }),
        },
      };
    case "bundles":
      return {
        case: "validationContext",
        value: { customValidatorConfig: spiffeValidator(secret.bundles) },
      };
  }
}

/** Envoy's SPIFFE validator: it verifies a certificate by the roots of the trust domain in it, without CRLs. */
function spiffeValidator(bundles: readonly DomainRoots[]) {
  const trustDomains = bundles.map(({ trustDomain, pem }) => ({
    name: trustDomain,
    trustBundle: inline(pem),
  }));
  const config = create(SPIFFECertValidatorConfigSchema, { trustDomains });
  return {
    name: "envoy.tls.cert_validator.spiffe",
    typedConfig: anyPack(SPIFFECertValidatorConfigSchema, config),
  };
}

const encoder = new TextEncoder();

const inline = (pem: string) => ({
  specifier: { case: "inlineBytes" as const, value: encoder.encode(pem) },
});

/** The version of a resource: a hash of its content, which does not reveal the private key in it. */
function resourceVersion({ value }: Any): string {
  return createHash("sha256").update(value).digest("hex");
}

/** Throws ConnectError for a request of another type than secrets. An empty type URL means secrets. */
export function requireSecretType(typeUrl: string): void {
  if (typeUrl === "" || typeUrl === secretTypeUrl) return;
  throw new ConnectError("only secrets are discovered here", Code.InvalidArgument);
}
