import * as z from "zod/mini";
import { FetchError } from "../foundation/http/json-fetch.ts";
import type { SendRequest } from "./client.ts";

/** A Lease (`coordination.k8s.io/v1`), by which several processes agree on the one that works. */
export interface LeasePlace {
  readonly namespace: string;
  readonly name: string;
}

/** One process that wants a lease. */
export interface LeaseCandidate {
  /**
   * Takes the lease if it is free, or renews it.
   *
   * @returns Whether this candidate holds the lease.
   * @throws FetchError; then nobody knows who holds it.
   */
  readonly acquire: (now: Date) => Promise<boolean>;
  /** Gives the lease up, so that another candidate need not wait for its end. @throws FetchError */
  readonly release: (now: Date) => Promise<void>;
}

/** client-go's default. A holder that has not renewed for as long has lost the lease. */
export const leaseSeconds = 15;

const leaseForm = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  spec: z.prefault(
    z.object({
      holderIdentity: z.nullish(z.string()),
      leaseDurationSeconds: z.nullish(z.number()),
      acquireTime: z.nullish(z.string()),
      leaseTransitions: z.nullish(z.number()),
    }),
    {},
  ),
});
type Lease = z.infer<typeof leaseForm>;

const apiVersion = "coordination.k8s.io/v1";
const conflict = 409;

/** A lease as this candidate last saw it, and when it began to look like that. */
interface Observation {
  readonly version: string;
  readonly since: Date;
}

/**
 * A candidate for a lease, by the rules of client-go's leader election. It counts the time of another holder
 * by its own clock, from the last change that it saw. Clocks may disagree.
 *
 * @param identity Different for every process.
 */
export function createLeaseCandidate(
  send: SendRequest,
  place: LeasePlace,
  identity: string,
): LeaseCandidate {
  const { read, write } = leaseAt(send, place);
  let observed: Observation | undefined;

  function isHeldByAnother({ metadata, spec }: Lease, now: Date): boolean {
    const version = metadata.resourceVersion;
    if (observed?.version !== version) observed = { version, since: now };
    if (!spec.holderIdentity || spec.holderIdentity === identity) return false;
    const seconds = spec.leaseDurationSeconds ?? leaseSeconds;
    return now.getTime() < observed.since.getTime() + 1000 * seconds;
  }

  return {
    acquire: async (now) => {
      const lease = await read();
      if (!lease) return write(heldBy(identity, now, 0));
      if (isHeldByAnother(lease, now)) return false;
      const { holderIdentity, acquireTime, leaseTransitions } = lease.spec;
      const transitions = leaseTransitions ?? 0;
      const spec =
        holderIdentity === identity
          ? { ...heldBy(identity, now, transitions), acquireTime }
          : heldBy(identity, now, transitions + 1);
      return write(spec, lease.metadata.resourceVersion);
    },
    release: async (now) => {
      const lease = await read();
      if (lease?.spec.holderIdentity !== identity) return;
      const held = heldBy("", now, lease.spec.leaseTransitions ?? 0);
      await write({ ...held, leaseDurationSeconds: 1 }, lease.metadata.resourceVersion);
    },
  };
}

/** Reads and writes a lease. A write succeeds only as the next one after the version that it names. */
function leaseAt(send: SendRequest, { namespace, name }: LeasePlace) {
  const collection = `/apis/${apiVersion}/namespaces/${namespace}/leases`;
  const path = `${collection}/${name}`;

  async function read(): Promise<Lease | undefined> {
    const json = await send({ path });
    if (json === undefined) return undefined;
    const lease = leaseForm.safeParse(json);
    if (lease.success) return lease.data;
    throw new FetchError("answered something else than a lease");
  }

  /** @returns Whether no other write came before. */
  async function write(spec: object, resourceVersion?: string): Promise<boolean> {
    const metadata = { name, namespace, ...(resourceVersion && { resourceVersion }) };
    const body = { apiVersion, kind: "Lease", metadata, spec };
    try {
      if (resourceVersion === undefined) await send({ method: "POST", path: collection, body });
      else await send({ method: "PUT", path, body });
      return true;
    } catch (error) {
      if (error instanceof FetchError && error.status === conflict) return false;
      throw error;
    }
  }

  return { read, write };
}

function heldBy(holderIdentity: string, now: Date, leaseTransitions: number): object {
  // Kubernetes writes these instants with six decimals.
  const instant = now.toISOString().replace("Z", "000Z");
  return {
    holderIdentity,
    leaseDurationSeconds: leaseSeconds,
    acquireTime: instant,
    renewTime: instant,
    leaseTransitions,
  };
}
