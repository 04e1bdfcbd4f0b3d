import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listenInPlaintext } from "../../../../src/node/http/listener.ts";
import { origin, rpcPath } from "../../../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../../testkit/log/event-recorder.ts";
import { parseLog } from "../../../testkit/log/log-lines.ts";
import { connectHttp2 } from "../../../testkit/network/http2-client.ts";
import { serveToml, startRampart } from "../../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { eventually } from "../../../testkit/time/eventually.ts";

async function startTwo(changes: object = {}) {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const store = join(folder, "store");
  const jwks = JSON.stringify(jwksOf(await createTokenKey("ES256", "k1")));
  const values = { PROPAGATION_INTERVAL: "0s", ISSUERS: [{ issuer: "https://a.test", jwks }] };
  await writeFile(config, serveToml(store, { LISTEN: "127.0.0.1:0", ...values, ...changes }));
  const rampart = startRampart(["serve", "-c", config, "--processes", "2"]);
  const text = (): string => rampart.lines.join("\n");
  return {
    child: rampart.process,
    config,
    store,
    /** The ports that the processes have logged, of those that ended, too. */
    ports: (what: "gRPC" | "monitoring") =>
      [...text().matchAll(new RegExp(`"${what} on [^"]*:(\\d+)"`, "g"))].map(([, p]) => Number(p)),
    saysOnce: (part: string) => text().split(part).length === 2,
    text,
    log: () => parseLog(text()),
  };
}

type Running = Awaited<ReturnType<typeof startTwo>>;

function processesOf({ child }: Running): Map<number, number> {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8" });
  return new Map(
    rows.split("\n").flatMap((row) => {
      const [, pid, parent, number] = /^ *(\d+) +(\d+) .* --process (\d+)$/.exec(row) ?? [];
      return Number(parent) === child.pid ? [[Number(number), Number(pid)] as const] : [];
    }),
  );
}

async function series(port: number, name: string): Promise<string[]> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return text.split("\n").filter((line) => line.startsWith(name));
}

/** A call without a credential, which is refused. */
async function callInVain(port: number): Promise<void> {
  const { session, send } = connectHttp2(`https://127.0.0.1:${port}`, {
    rejectUnauthorized: false,
  });
  const headers = { "content-type": "application/grpc" };
  const response = await send(new Request(`${origin}${rpcPath}`, { method: "POST", headers }));
  expect(response.headers.get("grpc-status")).toBe("16");
  session.destroy();
}

/** Of ports that were logged, those of processes that have not ended. */
async function openAmong(ports: readonly number[]): Promise<readonly number[]> {
  const isOpen = async (port: number): Promise<boolean> => {
    const socket = connect(port, "127.0.0.1");
    const connected = once(socket, "connect");
    return connected
      .then(() => true)
      .catch(() => false)
      .finally(() => socket.destroy());
  };
  const open = await Promise.all(ports.map(isOpen));
  return ports.filter((_, i) => open[i]);
}

test("several processes are one server: one mints, each has the metrics of all, a killed one is restarted, and all outlive the reader of their log", async () => {
  const running = await startTwo();
  const { store, ports, saysOnce } = running;
  await eventually(() => expect(ports("gRPC")).toHaveLength(2));
  expect(await readdir(join(store, "authorities"))).toHaveLength(1);
  for (const port of ports("gRPC")) await callInVain(port);
  for (const port of ports("monitoring")) {
    // A process that reports too late is missing from one answer.
    await eventually(async () =>
      expect(await series(port, "grpc_server_handled_total{")).toEqual([
        expect.stringMatching(/grpc_code="Unauthenticated"} 2$/),
      ]),
    );
    expect(await series(port, "rampart_trust_bundle_roots ")).toEqual([
      "rampart_trust_bundle_roots 1",
    ]);
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
  }

  const first = processesOf(running).get(1) ?? 0;
  const second = processesOf(running).get(2);
  await rm(join(store, "authorities"), { recursive: true });
  process.kill(first, "SIGKILL");
  await eventually(() => expect(ports("gRPC")).toHaveLength(3));
  // The restarted process rotates, and found the store empty.
  expect(await readdir(join(store, "authorities"))).toHaveLength(1);
  expect(saysOnce("process 1 exited and is restarted")).toBe(true);
  expect(processesOf(running).get(2)).toBe(second);
  const replacement = ports("monitoring").at(-1) ?? 0;
  await eventually(async () =>
    expect(await series(replacement, "grpc_server_handled_total{")).toHaveLength(1),
  );

  const audits = running.log().filter(({ event }) => event === "create-certificate");
  expect(audits.map(({ level }) => level)).toEqual(["warning", "warning"]);
  await loseTheirLog(running);
});

/** Has nobody read what two processes say, of which they report each line that is lost. */
async function loseTheirLog(running: Running): Promise<void> {
  const { child, ports } = running;
  const [grpc, monitoring] = [await openAmong(ports("gRPC")), await openAmong(ports("monitoring"))];
  const before = processesOf(running);
  child.stdout?.destroy();
  child.stderr?.destroy();
  for (const port of [...grpc, ...grpc]) await callInVain(port);
  for (const port of monitoring) {
    const readiness = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect(await readiness.json()).toMatchObject({
      ready: true,
      reasons: ["lines of the log are lost: write EPIPE"],
    });
    await eventually(async () =>
      expect(await series(port, "rampart_log_lines_lost_total")).toEqual([
        expect.stringMatching(/ [4-9]$/),
      ]),
    );
  }
  expect(processesOf(running)).toEqual(before);
}

test("processes that cannot serve are not restarted", async () => {
  const taken = await listenInPlaintext(
    { rpcs: new Map(), fetch: async () => new Response(), log: createEventRecorder() },
    { host: "127.0.0.1", port: 0 },
  );
  onTestFinished(() => taken.close(0));
  const running = await startTwo({ LISTEN: `127.0.0.1:${taken.address.port}` });
  expect(await once(running.child, "close")).toEqual([1, null]);
  expect(running.saysOnce("exited before it served")).toBe(true);
});

test("servers share a port only when both are told to", async () => {
  const routes = {
    rpcs: new Map(),
    fetch: async () => new Response("ok"),
    log: createEventRecorder(),
  };
  const shared = { host: "127.0.0.1", port: 0, reusePort: true };
  const first = await listenInPlaintext(routes, shared);
  const { port } = first.address;
  const second = await listenInPlaintext(routes, { ...shared, port });
  await expect(listenInPlaintext(routes, { host: "127.0.0.1", port })).rejects.toThrow(
    "EADDRINUSE",
  );
  await Promise.all([first.close(100), second.close(100)]);
});

test("a file that breaks while several processes serve keeps those that serve, of which one rotates, and SIGHUP reaches all", async () => {
  // The next authority is due after some three seconds.
  const running = await startTwo({ MAX_WORKLOAD_CERT_TTL: "1s" });
  const { child, config, ports, text } = running;
  await eventually(() => expect(ports("gRPC")).toHaveLength(2));
  child.kill("SIGHUP");
  const applied = 'rampart_configuration_reloads_total{outcome="applied"}';
  for (const port of ports("monitoring")) {
    await eventually(async () => expect(await series(port, applied)).toEqual([`${applied} 2`]));
  }

  const correct = await readFile(config, "utf8");
  await writeFile(config, "[[ISSUERS");
  process.kill(processesOf(running).get(1) ?? 0, "SIGKILL");
  await eventually(() => expect(text()).toMatch(/^rampart: .*is not TOML$/m));
  const [other = 0] = await openAmong(ports("gRPC"));
  await callInVain(other);
  const minted = () => text().split("authority-minted").length;
  const before = minted();
  await eventually(() => expect(minted()).toBeGreaterThan(before));
  await writeFile(config, correct);
  await eventually(() => expect(ports("gRPC")).toHaveLength(3));

  const exited = once(child, "close");
  child.kill("SIGTERM");
  expect(await exited).toEqual([0, null]);
});
