import * as z from "zod/mini";
import { FetchError } from "../../foundation/fetch.ts";
import type { SendRequest } from "../../kubernetes/client.ts";
import { writeUnlessConflict } from "../../kubernetes/object-write.ts";
import type { Lease, LeasePlace } from "../lease.ts";

/** A Lease (`coordination.k8s.io/v1`), by which several processes agree on the one that works. */
export interface LeaseName {
  readonly namespace: string;
  readonly name: string;
}

/** client-go's default. A holder that has not renewed for this long has lost the lease. */
export const leaseSeconds = 15;

const leaseSchema = z.object({
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

const apiVersion = "coordination.k8s.io/v1";

/** Stores a lease in an API server. Its functions throw FetchError. */
export function leaseObject(send: SendRequest, { namespace, name }: LeaseName): LeasePlace {
  const collection = `/apis/${apiVersion}/namespaces/${namespace}/leases`;
  const path = `${collection}/${name}`;
  return {
    read: async () => {
      const json = await send({ path });
      return json === undefined ? undefined : parseLease(json);
    },
    write: async (lease, now, version) => {
      const metadata = { name, namespace, ...(version && { resourceVersion: version }) };
      const body = { apiVersion, kind: "Lease", metadata, spec: specOf(lease, now) };
      return writeUnlessConflict(send, {
        collection,
        namespace,
        name,
        body,
        version,
      });
    },
  };
}

function parseLease(json: unknown): Lease & { readonly version: string } {
  const lease = leaseSchema.safeParse(json);
  if (!lease.success) throw new FetchError("answered something else than a lease");
  const { metadata, spec } = lease.data;
  return {
    holder: spec.holderIdentity ?? "",
    seconds: spec.leaseDurationSeconds ?? leaseSeconds,
    acquireTime: spec.acquireTime ?? undefined,
    transitions: spec.leaseTransitions ?? 0,
    version: metadata.resourceVersion,
  };
}

function specOf({ holder, seconds, acquireTime, transitions }: Lease, now: Date): object {
  // With six decimals, as Kubernetes' MicroTime requires.
  const instant = now.toISOString().replace("Z", "000Z");
  return {
    holderIdentity: holder,
    leaseDurationSeconds: seconds,
    acquireTime: acquireTime ?? instant,
    renewTime: instant,
    leaseTransitions: transitions,
  };
}
