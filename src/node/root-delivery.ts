import * as z from "zod";
import type { EventLog } from "../ca/audit-event.ts";
import { addSeconds } from "../pki/validity.ts";
import { type Followed, follow } from "./followed.ts";
import type { KubernetesClient } from "./kubernetes-client.ts";
import type { PublishedBundle } from "./published-bundle.ts";

/** How far the delivery of a bundle to a cluster has come. */
export interface DeliveryState {
  /** Where the bundle is, and where it has yet to come: mostly namespaces. */
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
  /** Whether all such places are known. */
  readonly hasAll: boolean;
}

/** Keeps the trust bundle in places of a cluster. */
export interface RootDelivery {
  readonly stateOf: (bundle: PublishedBundle) => DeliveryState;
  /** Applies what is pending and due. */
  readonly deliver: (bundle: PublishedBundle, now: Date) => Promise<void>;
}

/** Istio's label, key and exceptions (istio facts §5.5). */
const label = "istio.io/config";
const dataKey = "root-cert.pem";
const passedOver: ReadonlySet<string> = new Set([
  "kube-public",
  "kube-node-lease",
  "local-path-storage",
]);

const namespaceForm = z.object({
  metadata: z.object({ name: z.string() }),
  status: z.object({ phase: z.string().default("") }).prefault({}),
});
const configMapForm = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    labels: z.record(z.string(), z.string()).nullish(),
  }),
  data: z.record(z.string(), z.string()).nullish(),
});

/** A namespace's attempts, so that neither a failure nor a fight becomes a storm. */
interface Attempts {
  readonly last: Date;
  readonly next: Date;
  readonly pauseSeconds: number;
}

const longestPauseSeconds = 60;
const atOnce = 8;
const applyMilliseconds = 10_000;

/** @param name Of the ConfigMap. */
export function createRootDelivery(
  client: KubernetesClient,
  name: string,
  log: EventLog,
  signal: AbortSignal,
): RootDelivery {
  const failed = (error: unknown): void => logFault(log, "watch-failed", error);
  const namespaces = follow({
    client,
    path: "/api/v1/namespaces",
    keep: keepNamespace,
    failed,
    signal,
  });
  const configMaps = follow({
    client,
    path: `/api/v1/configmaps?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`,
    keep: (object) => keepConfigMap(object, name),
    failed,
    signal,
  });
  const attempts = new Map<string, Attempts>();

  async function apply(namespace: string, { pem }: PublishedBundle, now: Date): Promise<void> {
    const before = attempts.get(namespace);
    const isQuiet = !before || now > addSeconds(before.last, 2 * longestPauseSeconds);
    const pauseSeconds = isQuiet ? 1 : Math.min(2 * before.pauseSeconds, longestPauseSeconds);
    attempts.set(namespace, { last: now, next: addSeconds(now, pauseSeconds), pauseSeconds });
    try {
      const path = `/api/v1/namespaces/${namespace}/configmaps/${name}`;
      const bounded = AbortSignal.any([signal, AbortSignal.timeout(applyMilliseconds)]);
      const applied = keepConfigMap(
        await client.apply(path, configMap(name, namespace, pem), bounded),
        name,
      );
      if (applied) configMaps.items.set(...applied);
    } catch (error) {
      if (!signal.aborted) logFault(log, "root-not-delivered", error, { namespace });
    }
  }

  return {
    stateOf: (bundle) => stateOf(namespaces, configMaps, bundle),
    deliver: async (bundle, now) => {
      forgetGone(attempts, namespaces);
      const { hasAll, pending } = stateOf(namespaces, configMaps, bundle);
      const due = pending.filter((each) => now >= (attempts.get(each)?.next ?? now));
      for (let i = 0; hasAll && i < due.length; i += atOnce) {
        await Promise.all(due.slice(i, i + atOnce).map((each) => apply(each, bundle, now)));
      }
    },
  };
}

function stateOf(
  namespaces: Followed<string>,
  configMaps: Followed<string>,
  { pem }: PublishedBundle,
): DeliveryState {
  const wanted = [...namespaces.items].flatMap(([namespace, phase]) =>
    phase === "Terminating" || passedOver.has(namespace) ? [] : [namespace],
  );
  const hasBundle = (namespace: string): boolean => configMaps.items.get(namespace) === pem;
  return {
    delivered: wanted.filter(hasBundle),
    pending: wanted.filter((namespace) => !hasBundle(namespace)),
    hasAll: namespaces.hasAll() && configMaps.hasAll(),
  };
}

function forgetGone(attempts: Map<string, Attempts>, namespaces: Followed<string>): void {
  for (const name of attempts.keys()) if (!namespaces.items.has(name)) attempts.delete(name);
}

/** By name, the phase. */
function keepNamespace(object: unknown): readonly [string, string] | undefined {
  const parsed = namespaceForm.safeParse(object);
  return parsed.success ? [parsed.data.metadata.name, parsed.data.status.phase] : undefined;
}

/** By namespace, the bundle; one without Istio's label has none. */
function keepConfigMap(object: unknown, name: string): readonly [string, string] | undefined {
  const parsed = configMapForm.safeParse(object);
  if (!parsed.success || parsed.data.metadata.name !== name) return undefined;
  const { metadata, data } = parsed.data;
  return [metadata.namespace, metadata.labels?.[label] === "true" ? (data?.[dataKey] ?? "") : ""];
}

const configMap = (name: string, namespace: string, pem: string): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace, labels: { [label]: "true" } },
  data: { [dataKey]: pem },
});

/** What went wrong on the way to a cluster. */
export function logFault(
  { operation }: EventLog,
  event: string,
  error: unknown,
  fields: Readonly<Record<string, string>> = {},
): void {
  const detail = error instanceof Error ? error.message : "no reason given";
  operation({ ...fields, event, level: "warning", detail });
}
