import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { repeatedly, until } from "../../testkit/time/until.ts";
import { startEnvoyPair } from "../agent/envoy-pair.ts";
import { statusOf } from "../agent/processes/steady-load.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import type { Told } from "./envoy-story.ts";
import { shortLives, startAgent } from "./mesh.ts";

const domains = { a: "one.test", b: "two.test" } as const;

/** Which CA speaks for each trust domain, in the file that Envoys read. */
type Speakers = Readonly<Record<string, ServingCa>>;

/**
 * Two trust domains, each with a CA of its own, in one mesh: docs/explanation/data-planes.md. Envoy holds a
 * certificate against the bundle of the trust domain that it names, and no other.
 */
export async function playTwoDomains(envoy: string, folder: string, tell: Told): Promise<void> {
  const start = (name: string, TRUST_DOMAIN: string): Promise<ServingCa> =>
    startServingCa(join(folder, name), { values: { ...shortLives, TRUST_DOMAIN } });
  const [one, two] = await Promise.all([start("one", domains.a), start("two", domains.b)]);
  const bundles = join(folder, "bundles");
  await mkdir(bundles);
  let speakers: Speakers = { [domains.a]: one, [domains.b]: two };
  await publish(bundles, speakers);
  const publishing = repeatedly(() => publish(bundles, speakers), 500);
  const [a, b] = await Promise.all([
    startAgent(one, folder, "a", domains.a),
    startAgent(two, folder, "b", domains.b),
  ]);
  const envoys = await startEnvoyPair({
    envoy,
    folder,
    baseId: process.pid * 4 + 2,
    a: { socket: a.socket, trustDomain: domains.a },
    b: { socket: b.socket, trustDomain: domains.b },
    rewrite: (bootstrap) => withBundles(bootstrap, bundles),
  });
  const status = () => statusOf(envoys.freshUrl);
  await tell("a sidecar of one trust domain calls one of another", async () => {
    await until("a first answer", async () => (await status()) === "200");
    return "mutual TLS with the roots of two CAs";
  });
  await tell("no CA speaks for the trust domain of the other", async () => {
    speakers = { [domains.a]: two, [domains.b]: one };
    await until("a refusal", async () => (await status()).startsWith("503"));
    return "refused in the handshake once the bundles are exchanged";
  });
  await Promise.all([publishing.end(), envoys.end(), a.agent.end(), b.agent.end()]);
  await Promise.all([one.end(), two.end()]);
}

/** The bundles in the map of the recipe. Envoy sees the rename. */
async function publish(folder: string, speakers: Speakers): Promise<void> {
  const entries = Object.entries(speakers).map(
    async ([name, ca]) => [name, JSON.parse(await ca.bundle("json"))] as const,
  );
  const map = { trust_domains: Object.fromEntries(await Promise.all(entries)) };
  await writeFile(join(folder, "next.json"), JSON.stringify(map));
  await rename(join(folder, "next.json"), join(folder, "bundles.json"));
}

/** The bootstrap with the map in the place of the agent's own roots. */
function withBundles(bootstrap: string, folder: string): string {
  const trust_bundles = {
    filename: join(folder, "bundles.json"),
    watched_directory: { path: folder },
  };
  const type = "envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";
  const typed_config = { "@type": `type.googleapis.com/${type}`, trust_bundles };
  const custom_validator_config = { name: "envoy.tls.cert_validator.spiffe", typed_config };
  const changed = JSON.parse(bootstrap, (_key, value) => {
    const { combined_validation_context: combined, ...rest } = value ?? {};
    if (combined === undefined) return value;
    const validation_context = { ...combined.default_validation_context, custom_validator_config };
    return { ...rest, validation_context };
  });
  return JSON.stringify(changed);
}
