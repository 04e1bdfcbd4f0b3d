import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Registry } from "prom-client";
import { AgentMetrics } from "../../../src/agent/status/metrics.ts";
import { XdsStatus } from "../../../src/agent/xds/xds-status.ts";
import { DistributeConfiguration, distribute } from "../../../src/node/distribute/distribute.ts";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { runSigner } from "../../../src/node/signer/signer.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { Lifetime } from "../../../src/program/lifetime.ts";
import { openTelemetry } from "../../../src/program/otlp/telemetry.ts";
import { serveCa, unchangedConfiguration } from "../ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../callers/tokens.ts";
import { createEventRecorder } from "../log/event-recorder.ts";
import { lastingFolder } from "../temporary-folder.ts";

/** A metric as a scrape shows it. */
export interface ExposedMetric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
}

/** The metrics of every program that has some, by its name. Those of Node and of the process are left out. */
export async function expositions(): Promise<ReadonlyMap<string, readonly ExposedMetric[]>> {
  const texts = await scrapeAll();
  return new Map([...texts].map(([program, text]) => [program, metricsIn(text)]));
}

/** What a scrape of every program answers, by its name. */
export async function scrapeAll(): Promise<ReadonlyMap<string, string>> {
  const { ports, agent, end } = await startScraped();
  try {
    const scraped = [...ports].map(async ([program, port]) => {
      const response = await fetch(`http://127.0.0.1:${port}/metrics`);
      return [program, await response.text()] as const;
    });
    return new Map([...(await Promise.all(scraped)), ["agent", agent]]);
  } finally {
    await end();
  }
}

/** Every program with metrics, started. An agent has no port here, and its metrics are a text. */
interface Scraped {
  readonly ports: ReadonlyMap<string, number>;
  readonly agent: string;
  readonly end: () => Promise<void>;
}

/** Starts the programs, none of which reaches anything but a collector, where there is one. */
export async function startScraped(collector = "http://127.0.0.1:9"): Promise<Scraped> {
  const folder = await lastingFolder();
  const token = join(folder, "token");
  await writeFile(token, "a.b.c\n");
  // Nobody listens there: metrics are exposed before anything has succeeded.
  const away = { UPSTREAM: "http://127.0.0.1:9", MONITORING_LISTEN: "127.0.0.1:0" };
  const api = { KUBERNETES_SERVER: "http://127.0.0.1:9", KUBERNETES_TOKEN_FILE: token };
  const context = {
    log: createEventRecorder(),
    clock: () => new Date(),
    configurationStatus: () => unchangedConfiguration,
  };
  const telemetryOf = (program: string) =>
    openTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: collector }, program, context.clock);
  const jwks = jwksOf(await createTokenKey("ES256", "k1"));
  const credential = "CLUSTER_CREDENTIAL_A";
  const kubernetes = { server: "http://127.0.0.1:9", credential, deliver_roots: true };
  const pushed = { issuer: "https://a.test", cluster: "a", jwks, kubernetes };
  const values = { ISSUERS: [pushed], [credential]: "token" };
  const served = await serveCa(values, undefined, "both", await telemetryOf("serve"));
  const gateway = await runGateway(
    GatewayConfiguration.parse({
      ...away,
      ...api,
      LISTEN: "127.0.0.1:0",
      TOKEN_FILE: token,
      DELIVER_ROOTS: true,
    }),
    { ...context, telemetry: await telemetryOf("gateway") },
  );
  // The gateway never gets a certificate, and its address rejects when it ends.
  gateway.address.catch(() => {});
  const distributing = await distribute(DistributeConfiguration.parse({ ...away, ...api }, {}), {
    ...context,
    telemetry: await telemetryOf("distribute"),
  });
  const agent = { ...context, registry: agentRegistry(), life: new Lifetime(context.log) };
  (await telemetryOf("agent"))?.begin(agent);
  const services = [{ account: "a/b", dns_names: ["x.a.svc"] }];
  const signing = await runSigner(
    SignerConfiguration.parse(
      { ...away, ...api, TOKEN_FILE: token, SIGNERS: [{ name: "example.com/x", services }] },
      {},
    ),
    { ...context, telemetry: await telemetryOf("signer") },
  );
  return {
    ports: new Map([
      ["serve", served.monitoringPort],
      ["gateway", gateway.monitoringAddress.port],
      ["distribute", distributing.monitoringAddress.port],
      ["signer", signing.monitoringAddress.port],
    ]),
    agent: await agent.registry.metrics(),
    end: async () => {
      await agent.life.end(0);
      await Promise.all([gateway.close(0), distributing.close(0), signing.close(0), served.end()]);
    },
  };
}

/** An agent with a proxy for XDS has all of an agent's metrics. */
function agentRegistry(): Registry {
  const metrics = new AgentMetrics();
  const none = {
    expiries: () => [],
    bundle: { confirmedAt: undefined, isFollowed: false },
    crlExpiries: () => [],
  };
  metrics.observe(none, () => new Date());
  new XdsStatus("istiod:15012", () => new Date(), metrics.registry);
  return metrics.registry;
}

function metricsIn(text: string): readonly ExposedMetric[] {
  const helps = new Map(
    [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(([, name = "", help = ""]) => [name, help]),
  );
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
    .map(([, name = "", type = ""]) => ({ name, type, help: helps.get(name) ?? "" }))
    .filter(({ name }) => !/^(?:process|nodejs)_/.test(name));
}
