import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { idempotentOver } from "../../ca/issuance/idempotency.ts";
import type { AuthorityStore } from "../../custody/authority-store.ts";
import { ConfigurationError, causeOf, messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { FetchError } from "../../foundation/fetch.ts";
import type { KubernetesClient } from "../../kubernetes/client.ts";
import { FileStore } from "../files/file-store.ts";
import { openApiServer } from "../files/places.ts";
import { type BucketSpace, openBucket } from "./bucket-space.ts";
import { issuedCertificatesAt } from "./issued-objects.ts";
import { createSharedStore, type ObjectSpace, signerStoreIn } from "./object-space.ts";
import { createRetries, withRetries } from "./retries.ts";
import {
  createSecretSpace,
  issuedSecrets,
  stalenessFactor,
  WatchedSecrets,
} from "./secret-space.ts";
import type { BucketPlace, NamespacePlace, StorePlace } from "./store-place.ts";
import { Turns, turnSecondsOf } from "./turns.ts";

interface Stores {
  readonly store: AuthorityStore;
  readonly signerStore: (signer: string) => AuthorityStore;
}

/** The stores of a server that may be one of several replicas. */
export interface ReplicaStores extends Stores {
  /**
   * Does work that only one replica at a time may do. It does nothing if another is at work. If that is unknown, it does
   * nothing either, and logs why.
   */
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
  /** As `inTurn`, for the delivery to clusters. Its turns are separate, because it takes longer than a rotation may wait. */
  readonly pushInTurn: (work: () => Promise<void>) => Promise<void>;
  /** Absent for a store in files. */
  readonly idempotency?: ReturnType<typeof idempotentOver>;
  /** By how much loads may lag behind the writes of other replicas. */
  readonly lagSeconds: number;
}

interface StoreContext {
  readonly log: OperationLog;
  readonly clock: () => Date;
  readonly propagationSeconds: number;
  readonly signal: AbortSignal;
}

interface StoresConfiguration {
  readonly store: StorePlace;
  readonly ca: { readonly signers: readonly { readonly name: string }[] };
}

/** Opens stores that replicas share. */
export const ReplicaStores = {
  /** Opens the stores of a server. @throws OperatorError, ConfigurationError */
  async open(
    { store: place, ca }: StoresConfiguration,
    context: StoreContext,
  ): Promise<ReplicaStores> {
    if (place.kind === "directory") {
      const { directory } = place;
      return {
        store: await FileStore.open(directory),
        signerStore: await FileStore.openSigners({ storeDirectory: directory, ca }),
        inTurn: (work) => work(),
        pushInTurn: (work) => work(),
        lagSeconds: 0,
      };
    }
    if (place.kind === "s3") {
      const lagSeconds = pollSecondsOf(context.propagationSeconds);
      const space = await polledSpace(place, lagSeconds, context);
      const idempotency = idempotentOver(issuedCertificatesAt(space));
      return { ...shareTurns(space, context), idempotency, lagSeconds };
    }
    const client = await ReplicaStores.openServer(place);
    return {
      ...shareTurns(watchedSpace(client, place, context), context),
      idempotency: idempotentOver(issuedInSecrets(client, place)),
      lagSeconds: stalenessFactor * watchSecondsOf(context.propagationSeconds),
    };
  },

  /** The stores in a bucket, read anew for each load, and `prove`, which tests its service. @throws OperatorError */
  async inBucket(
    place: BucketPlace,
    clock: () => Date,
  ): Promise<Stores & { readonly prove: () => Promise<void> }> {
    const space = await openBucket(place, clock);
    return { ...storesIn(space), prove: () => space.prove() };
  },

  /** The stores in the Secrets of a namespace, read anew for each load. */
  inSecrets({ send }: Pick<KubernetesClient, "send">, namespace: string, server: string): Stores {
    return storesIn(withRetries(createSecretSpace(send, namespace), serviceOf(server)));
  },

  /**
   * Opens a client of the API server that has a store's Secrets.
   * @throws ConfigurationError outside of a cluster if the configuration names no API server.
   */
  async openServer({ apiServer }: NamespacePlace): Promise<KubernetesClient> {
    if (apiServer) return openApiServer(apiServer);
    throw new ConfigurationError(["KUBERNETES_SERVER: is required outside of a cluster"]);
  },
};

/** The space of a bucket. If the service is unreachable, the process starts but is not ready. @throws OperatorError */
async function polledSpace(
  place: BucketPlace,
  pollSeconds: number,
  { clock }: StoreContext,
): Promise<BucketSpace> {
  const space = await openBucket(place, clock, pollSeconds);
  await space.prove().catch((error: unknown) => {
    if (!(error instanceof FetchError)) throw error;
  });
  return space;
}

/** An eighth of the propagation interval, because the lag of every replica must be below that interval. */
const eighthOf = (propagationSeconds: number, longestSeconds: number): number =>
  Math.max(1, Math.min(longestSeconds, Math.floor(propagationSeconds / 8)));

/** Up to 15 seconds, because each list costs money. */
const pollSecondsOf = (propagationSeconds: number): number => eighthOf(propagationSeconds, 15);

/** How long a watch lasts, which is two thirds of the time for which a silent one is trusted. */
const watchSecondsOf = (propagationSeconds: number): number => eighthOf(propagationSeconds, 10);

function watchedSpace(
  client: KubernetesClient,
  { namespace, apiServer }: NamespacePlace,
  { log, clock, signal, propagationSeconds }: StoreContext,
): ObjectSpace {
  const service = serviceOf(apiServer?.server);
  const failed = (error: unknown): void => {
    const detail = `${service} does not let Rampart watch the Secrets of ${namespace}: it ${messageOf(error)}`;
    log.operation({ event: "store-watch-failed", level: "warning", detail });
  };
  const space = withRetries(createSecretSpace(client.send, namespace), service);
  const watchSeconds = watchSecondsOf(propagationSeconds);
  return new WatchedSecrets(space, { client, namespace, watchSeconds, clock, signal, failed });
}

/** Opens the certificates in Secrets without a watch, which would remember every certificate that it has written. */
function issuedInSecrets(
  { send }: KubernetesClient,
  { namespace, apiServer }: NamespacePlace,
): ReturnType<typeof issuedCertificatesAt> {
  const service = serviceOf(apiServer?.server);
  const attempt = createRetries(service);
  return issuedCertificatesAt({
    ...withRetries(createSecretSpace(send, namespace), service),
    written: (beginning) => attempt(() => issuedSecrets(send, namespace, beginning)),
  });
}

function shareTurns(
  shared: ObjectSpace,
  { log, clock, propagationSeconds }: StoreContext,
): Omit<ReplicaStores, "lagSeconds"> {
  const turnSeconds = turnSecondsOf(propagationSeconds);
  const taker = { identity: `${hostname()}_${randomUUID()}`, clock, turnSeconds };
  // A push may take 50 seconds, and its last request five more.
  const pushing = { ...taker, turnSeconds: Math.max(60, turnSeconds) };
  const push = new Turns(shared, pushing, "push");
  const rotation = new Turns({ ...shared, list: push.space.list }, taker);
  return {
    ...storesIn(rotation.space),
    inTurn: reporting(log, rotation, "rotation-fault", "rotates"),
    pushInTurn: reporting(log, push, "roots-not-delivered", "delivers"),
  };
}

/** Logs an error of the turn itself. Work that has begun logs its own faults. */
function reporting(
  log: OperationLog,
  turns: Turns,
  event: "rotation-fault" | "roots-not-delivered",
  act: string,
): ReplicaStores["inTurn"] {
  return async (work) => {
    let hasBegun = false;
    const begin = (): Promise<void> => {
      hasBegun = true;
      return work();
    };
    try {
      await turns.take(begin);
    } catch (error) {
      if (hasBegun) throw error;
      const detail = `nobody knows which replica ${act}: ${messageOf(error)}`;
      log.operation({ event, level: "error", detail });
    }
  };
}

const storesIn = (space: ObjectSpace): Stores => ({
  store: createSharedStore(space),
  signerStore: signerStoreIn(space),
});

const serviceOf = (server = ""): string => `the API server ${server}`;

/** How often a store is tested for writing (not read), because most runs of a rotation write nothing. */
export const storeTestSeconds = 60;

/** A store that remembers why its last write or test failed. */
export class WatchedStore implements AuthorityStore {
  readonly #store: AuthorityStore;
  readonly #log: OperationLog;
  #fault: string | undefined;
  #detail = "";

  constructor(store: AuthorityStore, log: OperationLog) {
    this.#store = store;
    this.#log = log;
  }

  /** Why the store cannot be written, in one sentence; `undefined` if the last write succeeded. */
  readonly fault = (): string | undefined => this.#fault;

  readonly load: AuthorityStore["load"] = () => this.#store.load();

  readonly put: AuthorityStore["put"] = (record, before) =>
    this.#telling(() => this.#store.put(record, before));

  readonly delete: AuthorityStore["delete"] = (name) =>
    this.#telling(() => this.#store.delete(name));

  /** Tests the store. It logs every failure, so that an alert lasts as long as the fault. */
  readonly poll = async (): Promise<void> => {
    const { tryWriting } = this.#store;
    if (tryWriting) await this.#telling(tryWriting).catch(() => this.#tell());
    else if (this.#fault !== undefined) this.#tell();
  };

  #tell(): void {
    this.#log.operation({ event: "store-not-writable", level: "error", detail: this.#detail });
  }

  async #telling<T>(write: () => Promise<T>): Promise<T> {
    try {
      const done = await write();
      this.#fault = undefined;
      return done;
    } catch (error) {
      // Without a path, because anybody may read `/readyz`.
      this.#fault = `the store takes no record (${causeOf(error)})`;
      this.#detail = messageOf(error);
      throw error;
    }
  }
}
