import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Registry } from "prom-client";
import { onTestFinished } from "vitest";
import type { IstiodSettings } from "../../../src/agent/configuration/xds-settings.ts";
import type { ConnectionTrust } from "../../../src/agent/identity/ca-channel.ts";
import { XdsProxy } from "../../../src/agent/xds/xds-proxy.ts";
import { createEventRecorder } from "../log/event-recorder.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import { createVirtualTime } from "../time/virtual-time.ts";
import { request, types } from "./discovery-messages.ts";
import { type FakeIstiod, openEnvoyStream, startFakeIstiod } from "./discovery-peers.ts";

export type RunningXdsProxy = Awaited<ReturnType<typeof runXdsProxy>>;

/**
 * Runs an XDS proxy whose time a test passes. It ends with the test.
 *
 * @param changes Of settings that work.
 */
export async function runXdsProxy(
  { address, root }: Pick<FakeIstiod, "address" | "root">,
  changes: Partial<IstiodSettings> = {},
) {
  const folder = await temporaryFolder();
  const [rootFile, tokenFile] = [join(folder, "root.pem"), join(folder, "token")];
  await Promise.all([writeFile(rootFile, root), writeFile(tokenFile, "first-token\n")]);
  const log = createEventRecorder();
  const time = createVirtualTime(new Date("2026-01-01T00:00:00Z"));
  const registry = new Registry();
  const istiod = {
    address,
    isPlaintext: false,
    files: { rootFile, clientCertificate: undefined, serverName: undefined },
    preferredRootFile: undefined,
    token: { kind: "file" as const, path: tokenFile },
    headers: { clusterid: "Kubernetes" },
    ...changes,
  };
  const socket = join(folder, "XDS");
  const { clock, pause } = time;
  const known: ConnectionTrust = { rootsFor: (file) => file, isWithdrawn: () => false };
  const proxy = new XdsProxy({ socket, istiod }, { clock, pause, known, log, registry });
  await proxy.listen();
  onTestFinished(() => proxy.close());
  return { proxy, socket, log, time, rootFile, tokenFile, metrics: () => registry.metrics() };
}

/** Opens Envoy's stream, and asks for clusters. */
export function askForClusters({ socket }: { readonly socket: string }) {
  const envoy = openEnvoyStream(socket, "incremental");
  envoy.send(request(types.cluster));
  return envoy;
}

/** An XDS proxy, and a stream of Envoy through it whose first request, for clusters, has reached istiod. */
export async function connectEnvoy() {
  const istiod = await startFakeIstiod();
  const running = await runXdsProxy(istiod);
  const envoy = askForClusters(running);
  const stream = await istiod.streams.nth(1);
  await stream.requests.nth(1);
  return { istiod, ...running, envoy, stream };
}
