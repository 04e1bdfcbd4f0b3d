import { Code, ConnectError } from "@connectrpc/connect";
import * as z from "zod/mini";
import { nameAllowList } from "../../foundation/globs.ts";
import type { KubernetesClient, SendRequest } from "../../kubernetes/client.ts";
import { objectName } from "../../kubernetes/names.ts";
import { WatchedCollection } from "../../kubernetes/watch.ts";
import { applyStatus, collectionOf, instant, type ObjectKind } from "./object-status.ts";
import type { CertManagerPolicy, SignerName } from "./signer-configuration.ts";

/** The API group of Rampart's issuers. */
export const issuerGroup = "rampart.dev";

const apiVersion = `${issuerGroup}/v1`;

/** The kinds of issuers: of a namespace, and of the cluster. */
const issuerKinds: readonly ObjectKind[] = [
  { apiVersion, kind: "RampartIssuer", plural: "rampartissuers" },
  { apiVersion, kind: "RampartClusterIssuer", plural: "rampartclusterissuers" },
];

/**
 * Whether an API server has the CRDs of cert-manager and those of Rampart's issuers.
 *
 * @throws FetchError
 */
export async function certManagerIsServed(send: SendRequest): Promise<boolean> {
  const ofRequests = "/apis/cert-manager.io/v1/certificaterequests";
  for (const path of [ofRequests, ...issuerKinds.map(collectionOf)]) {
    if ((await send({ path: `${path}?limit=1` })) === undefined) return false;
  }
  return true;
}

const text = z.string().check(z.maxLength(1024));

const issuerSchema = z.object({
  metadata: z.object({
    namespace: z.optional(objectName),
    name: objectName,
    uid: text,
    generation: z._default(z.number(), 0),
  }),
  spec: z.object({ signerName: text }),
  status: z.prefault(
    z.object({
      conditions: z._default(
        z.array(
          z.object({
            type: text,
            status: text,
            reason: text,
            message: text,
            observedGeneration: z._default(z.number(), 0),
            lastTransitionTime: text,
          }),
        ),
        [],
      ),
    }),
    {},
  ),
});

/** An issuer of Rampart. It names a signer, whose rules decide; it grants nothing by itself. */
export type Issuer = z.output<typeof issuerSchema>;

/** How a request names its issuer. */
interface IssuerReference {
  readonly kind: string;
  readonly name: string;
}

interface IssuerContext {
  readonly client: KubernetesClient;
  readonly signers: readonly SignerName[];
  /** Why the CA cannot be asked. */
  readonly caFaults: () => readonly string[];
  readonly clock: () => Date;
  readonly signal: AbortSignal;
  readonly failed: (error: unknown) => void;
}

interface Health {
  readonly isReady: boolean;
  readonly reason: string;
  readonly message: string;
}

/**
 * The issuers of a cluster, and the CA's last refusal for each. Their conditions are only for people: no request waits
 * for them.
 */
export class Issuers {
  readonly #context: IssuerContext;
  readonly #kinds: readonly {
    readonly kind: ObjectKind;
    readonly issuers: WatchedCollection<Issuer>;
  }[];
  /** The CA's last refusals, by the UID of the issuer. */
  readonly #refusals = new Map<string, string>();

  constructor(context: IssuerContext) {
    this.#context = context;
    const { client, failed, signal } = context;
    this.#kinds = issuerKinds.map((kind) => {
      const listing = { path: collectionOf(kind), pageSize: 250, maximumRequests: 400 };
      return { kind, issuers: WatchedCollection.watch({ client, listing, keep, failed, signal }) };
    });
  }

  /** Whether all issuers of the cluster have been listed once. */
  hasAll(): boolean {
    return this.#kinds.every(({ issuers }) => issuers.hasAll());
  }

  /** The issuer to which a request of a namespace refers; `undefined` if there is none. */
  find(namespace: string, { kind: wanted, name }: IssuerReference): Issuer | undefined {
    const found = this.#kinds.find(({ kind }) => kind.kind === wanted)?.issuers.items;
    return found?.get(`${namespace}/${name}`) ?? found?.get(`/${name}`);
  }

  /** Records that the CA has answered a request of an issuer, or why it refused; not that it was unreachable. */
  note({ metadata }: Issuer, error?: unknown): void {
    if (error === undefined) this.#refusals.delete(metadata.uid);
    else if (error instanceof ConnectError && error.code !== Code.Unavailable) {
      this.#refusals.set(metadata.uid, error.rawMessage);
    }
  }

  /** Writes the changed conditions of issuers. Rejects with the first failure. */
  async report(): Promise<void> {
    const { client, clock } = this.#context;
    this.#forgetDeleted();
    for (const { kind, issuers } of this.#kinds) {
      for (const issuer of issuers.items.values()) {
        const condition = conditionOf(issuer, this.#healthOf(issuer), clock());
        if (condition)
          await applyStatus(client, kind, issuer.metadata, { conditions: [condition] });
      }
    }
  }

  #forgetDeleted(): void {
    const all = this.#kinds.flatMap(({ issuers }) => [...issuers.items.values()]);
    const known = new Set(all.map(({ metadata }) => metadata.uid));
    for (const uid of this.#refusals.keys()) if (!known.has(uid)) this.#refusals.delete(uid);
  }

  #healthOf({ metadata: { namespace, uid }, spec: { signerName } }: Issuer): Health {
    const { signers, caFaults } = this.#context;
    const rules = signers.find(({ name }) => name === signerName)?.cert_manager ?? [];
    const own = rules.filter(
      ({ namespaces }) => namespace === undefined || nameAllowList(namespaces)(namespace),
    );
    const bad = (reason: string, message: string): Health => ({ isReady: false, reason, message });
    if (rules.length === 0)
      return bad("SignerUnknown", "rampart signer has no rules for this name");
    if (own.length === 0) return bad("NamespaceNotServed", "no rule is for this namespace");
    const [fault] = caFaults();
    if (fault !== undefined) return bad("CaUnreachable", fault);
    const refusal = this.#refusals.get(uid);
    if (refusal !== undefined) return bad("CaRefuses", `the last request: ${refusal}`);
    return { isReady: true, reason: "CaReached", message: own.map(sentenceOf).join("; ") };
  }
}

function keep(object: unknown): readonly [string, Issuer] | undefined {
  const parsed = issuerSchema.safeParse(object);
  if (!parsed.success) return undefined;
  const { namespace, name } = parsed.data.metadata;
  return [`${namespace ?? ""}/${name}`, parsed.data];
}

/** What a rule allows, in words. */
function sentenceOf({ namespaces, requester, identities, dns_names }: CertManagerPolicy): string {
  const who = requester ? `${requester.namespace}/${requester.name}` : "each account";
  const whose = requester ? identities.map((each) => `SPIFFE IDs of ${each}`) : ["its SPIFFE ID"];
  const names = [...whose, ...dns_names].join(", ");
  return `${who} in ${namespaces.join(", ")} may have ${names}`;
}

const longestMessage = 1000;

/** The condition to write for an issuer; `undefined` if the issuer has it already. */
function conditionOf(
  { metadata: { generation: observedGeneration }, status: { conditions } }: Issuer,
  { isReady, reason, message: whole }: Health,
  now: Date,
): object | undefined {
  const [status, message] = [isReady ? "True" : "False", whole.slice(0, longestMessage)];
  const former = conditions.find(({ type }) => type === "Ready");
  const next = { type: "Ready", status, reason, message, observedGeneration };
  const isSame =
    former?.status === status &&
    former.reason === reason &&
    former.message === message &&
    former.observedGeneration === observedGeneration;
  const lastTransitionTime = former?.status === status ? former.lastTransitionTime : instant(now);
  return isSame ? undefined : { ...next, lastTransitionTime };
}
