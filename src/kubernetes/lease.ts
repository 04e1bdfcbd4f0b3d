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

const text = z._default(z.string(), "");
const number = z._default(z.number(), 0);
const leaseForm = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  spec: z.prefault(
    z.object({
      holderIdentity: text,
      leaseDurationSeconds: z._default(z.number(), leaseSeconds),
      acquireTime: text,
      leaseTransitions: number,
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
 * A candidate for a lease, by the rules of client-go's leader election: it counts the time of another
 * holder by its own clock, from the last change that it saw. Clocks may disagree.
 *
 * @param identity Different for every process.
 */
export function createLeaseCandidate(
  send: SendRequest,
  { namespace, name }: LeasePlace,
  identity: string,
): LeaseCandidate {
  const collection = `/apis/${apiVersion}/namespaces/${namespace}/leases`;
  let observed: Observation | undefined;

  async function read(): Promise<Lease | undefined> {
    const json = await send({ path: `${collection}/${name}` });
    if (json === undefined) return undefined;
    const lease = leaseForm.safeParse(json);
    if (lease.success) return lease.data;
    throw new FetchError("answered something else than a lease");
  }

  /** Whether this write was the next one after the version that it was made from. */
  async function write(spec: object, resourceVersion?: string): Promise<boolean> {
    const metadata = { name, namespace, ...(resourceVersion && { resourceVersion }) };
    const body = { apiVersion, kind: "Lease", metadata, spec };
    const isNew = resourceVersion === undefined;
    try {
      await send(
        isNew
          ? { method: "POST", path: collection, body }
          : { method: "PUT", path: `${collection}/${name}`, body },
      );
      return true;
    } catch (error) {
      if (error instanceof FetchError && error.status === conflict) return false;
      throw error;
    }
  }

  function isHeldByAnother({ metadata, spec }: Lease, now: Date): boolean {
    const version = metadata.resourceVersion;
    if (observed?.version !== version) observed = { version, since: now };
    if (spec.holderIdentity === "" || spec.holderIdentity === identity) return false;
    const end = observed.since.getTime() + 1000 * spec.leaseDurationSeconds;
    return now.getTime() < end;
  }

  return {
    acquire: async (now) => {
      const lease = await read();
      if (!lease) return write(heldBy(identity, now, 0));
      if (isHeldByAnother(lease, now)) return false;
      const { holderIdentity, acquireTime, leaseTransitions } = lease.spec;
      const spec =
        holderIdentity === identity
          ? { ...heldBy(identity, now, leaseTransitions), acquireTime }
          : heldBy(identity, now, leaseTransitions + 1);
      return write(spec, lease.metadata.resourceVersion);
    },
    release: async (now) => {
      const lease = await read();
      if (lease?.spec.holderIdentity !== identity) return;
      const spec = { ...heldBy("", now, lease.spec.leaseTransitions), leaseDurationSeconds: 1 };
      await write(spec, lease.metadata.resourceVersion);
    },
  };
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
