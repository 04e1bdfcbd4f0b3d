import { once } from "node:events";
import { Agent, get } from "node:https";
import { expect, onTestFinished, test } from "vitest";
import { listenWithTls } from "../../../src/node/http/tls-listener.ts";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { monitoringLimits } from "../../../src/node/limits/limits.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import type { Peer } from "../../../src/transport/rpc/rpc.ts";
import { scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { clusterLocal, workload } from "../../testkit/pki/certificates.ts";
import { leafWithoutProof } from "../../testkit/pki/held-leaf.ts";

const schedule = scheduleAfter(new Date(), [-3600, -3600, 3600, 7200]);
const [gone, successor] = await Promise.all([
  NewAuthority.create(clusterLocal, "EC-P256", schedule),
  NewAuthority.create(clusterLocal, "EC-P256", schedule),
]);
const rootOf = ({ authority }: typeof gone) => Pem.format("CERTIFICATE", authority.certificate.der);
const { ca, key: keyPem } = await createTlsIdentity();
const certificate = { chainPem: ca, keyPem };

/** A port that says of each call whether it knows the certificate of its caller, and a caller's TLS. */
async function startListener() {
  const log = createEventRecorder();
  const clock = (): Date => new Date();
  const fetch = async (_: Request, { clientCertificate }: Peer) =>
    new Response(clientCertificate ? "known" : "unknown");
  const guard = createGuard(monitoringLimits);
  const listener = await listenWithTls(
    { rpcs: new Map(), fetch, log },
    { host: "127.0.0.1", port: 0 },
    { certificate, clientRoots: rootOf(gone) },
    { trustDomain: clusterLocal, clock, log },
    guard,
  );
  onTestFinished(async () => {
    guard.end();
    await listener.close(0);
  });
  const leaf = await leafWithoutProof(gone, workload("foo", "bar"));
  const tls = { ca, cert: leaf.chainPem, key: leaf.keyPem };
  return { listener, tls, port: listener.address.port };
}

test("an HTTP/1.1 connection stays, without the certificate of a root that has gone", async () => {
  const { listener, tls, port } = await startListener();
  const agent = new Agent({ ...tls, keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const ask = async () => {
    const request = get({ host: "127.0.0.1", port, agent });
    const [response] = await once(request, "response");
    const text = Buffer.concat(await Array.fromAsync(response)).toString();
    return [request.reusedSocket, text];
  };
  expect(await ask()).toEqual([false, "known"]);
  listener.replace({ certificate, clientRoots: rootOf(gone) });
  expect(await ask()).toEqual([true, "known"]);
  listener.replace({ certificate, clientRoots: rootOf(successor) });
  expect(await ask()).toEqual([true, "unknown"]);
});

test("an HTTP/2 connection with the certificate of a root that has gone takes no more calls", async () => {
  const { listener, tls, port } = await startListener();
  const { session, send } = connectHttp2(`https://127.0.0.1:${port}`, tls);
  onTestFinished(() => session.destroy());
  expect(await (await send(new Request("https://a.test/"))).text()).toBe("known");
  const ended = once(session, "goaway");
  listener.replace({ certificate, clientRoots: rootOf(successor) });
  await ended;
  await expect(send(new Request("https://a.test/"))).rejects.toThrow();
});
