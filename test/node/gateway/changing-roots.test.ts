import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { issuers } from "../../contract/service-under-test.ts";
import { taintSigner } from "../../testkit/agent/taint-signer.ts";
import { servedName } from "../../testkit/ca/served-ca.ts";
import { mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { serveForGateway } from "./gateway-stage.ts";

const clock = (): Date => new Date();

/** `serve`, and a gateway before it whose file of roots nobody updates. */
async function startBoth() {
  const shared = {
    KEK: randomKek(),
    INCEPTION_DATE: clock().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
  };
  const {
    key,
    ISSUERS,
    served: ca,
    folder,
    keys,
  } = await serveForGateway({ ...shared, CRL: "on" });
  onTestFinished(ca.end);
  const operator = await Composition.compose(Configuration.parse({ ...shared, ISSUERS }), {
    store: await FileStore.open(ca.storeDirectory),
    fetching: noFetching,
    cryptoProvider: webCryptoProvider,
    log: createEventRecorder(),
    clock,
  });
  const configuration = GatewayConfiguration.parse({ ...keys, CACHE: join(folder, "cache") });
  let now = clock();
  const run = () => runGateway(configuration, { log: createEventRecorder(), clock: () => now });
  let gateway = await run();
  onTestFinished(() => gateway.close(1000));
  const { csrPem: csr } = await createWorkload();
  const authorization = `Bearer ${await mintAccountToken(key, issuers.cluster, "foo:bar", clock())}`;
  /** A caller with these roots alone. */
  const call = async (roots: string) => {
    const { port } = await gateway.address;
    const client = nativeClient(port, servedName, { roots });
    const answer = await client.createCertificate({ csr }, { authorization });
    client.close();
    return answer;
  };
  const requestsUnderWay = async (): Promise<number> => {
    const metrics = await ca.monitored("/metrics");
    return Number(/^rampart_requests_under_way (\d+)$/m.exec(await metrics.text())?.[1]);
  };
  const taint = () => taintSigner(operator, "immediately", clock());
  /** Resolves when the CA holds its answers about roots and CRLs. */
  const isFollowed = () => eventually(async () => expect(await requestsUnderWay()).toBe(2));
  const reload = () => gateway.reconfigure(configuration);
  const restart = async (): Promise<void> => {
    await gateway.close(1000);
    gateway = await run();
  };
  const readiness = async () =>
    (await fetch(`http://127.0.0.1:${gateway.monitoringAddress.port}/readyz`)).json();
  const pass = (seconds: number): void => {
    now = addSeconds(now, seconds);
  };
  return { ca, call, taint, isFollowed, readiness, pass, reload, restart };
}

test("a gateway goes on when the CA's root leaves at once, for callers with the new roots alone, and after a restart", async () => {
  const { ca, call, taint, isFollowed, readiness, pass, reload, restart } = await startBoth();
  const first = await ca.bundle();
  expect(await call(first)).toHaveProperty("certChain");
  await isFollowed();
  let before = first;
  for (let change = 1; change <= 2; change++) {
    await taint();
    await eventually(async () => expect(await ca.bundle()).not.toBe(before));
    before = await ca.bundle();
    expect(before).not.toContain(first);
    // Until it asks for another certificate, callers refuse the one that it has.
    const withdrawn = {
      ready: false,
      reasons: ["the serving certificate: its root was withdrawn"],
    };
    await eventually(async () => expect(await readiness()).toMatchObject(withdrawn));
    pass(5);
    await eventually(async () => expect(await call(before)).toHaveProperty("certChain"));
  }
  await reload();
  expect(await call(before)).toHaveProperty("certChain");
  await expect(call(first)).resolves.not.toHaveProperty("certChain");
  await restart();
  await eventually(async () => expect(await call(before)).toHaveProperty("certChain"));
});
