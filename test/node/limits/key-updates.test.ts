import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { hasOpenssl } from "../../testkit/programs/openssl.ts";
import { openSession, openSocket, start } from "./limited-ca.ts";

const name =
  "a peer that has a connection compute new keys again and again is cut, and its address refused";

test.skipIf(!hasOpenssl)(name, async () => {
  const started = await start({});
  const { port } = started.served;
  const words = ["s_client", "-connect", `127.0.0.1:${port}`, "-tls1_3", "-alpn", "h2"];
  const peer = spawn("openssl", words, { stdio: ["pipe", "ignore", "ignore"] });
  onTestFinished(() => void peer.kill());
  peer.stdin.on("error", () => {});
  // OpenSSL takes one command of each read.
  const updates = setInterval(() => peer.stdin.write("K\n"), 2);
  await once(peer, "exit");
  clearInterval(updates);
  await once(openSocket(port).resume(), "close");
  const honest = openSession(started, "TLS", "127.0.0.2");
  await once(honest, "connect");
  expect(honest.destroyed).toBe(false);
});
