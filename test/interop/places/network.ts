import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Ended, runWell } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";

type Family = "v4" | "v6";
type Addresses = Readonly<Record<Family, string>>;

export const servers: Addresses = { v4: "10.88.0.1", v6: "fd88::1" };

/** The near end of a pod's line, and the pod's own. */
const nearEnd = (pod: number): Addresses => ({ v4: `10.77.${pod}.1`, v6: `fd77:${pod}::1` });
export const podAt = (pod: number): Addresses => ({ v4: `10.77.${pod}.2`, v6: `fd77:${pod}::2` });

const ip = (words: string, before: readonly string[] = []): Promise<string> => {
  const [program = "", ...values] = [...before, "ip", ...words.split(" ")];
  return runWell(program, values);
};

/** Makes the network in which the suite runs, and gives each name its addresses. */
export async function makeNetwork(
  folder: string,
  hosts: Readonly<Record<string, readonly string[]>>,
): Promise<void> {
  await ip("link set lo up");
  for (const last of [1, 2, 3])
    await ip(`addr add ${servers.v4.replace(/1$/, `${last}`)}/32 dev lo`);
  await ip(`addr add ${servers.v6}/128 dev lo nodad`);
  const file = join(folder, "hosts");
  const lines = Object.entries(hosts).flatMap(([name, addresses]) =>
    addresses.map((address) => `${address} ${name}`),
  );
  await writeFile(file, ["127.0.0.1 localhost", "::1 localhost", ...lines, ""].join("\n"));
  await runWell("mount", ["--bind", file, "/etc/hosts"]);
}

/** A network namespace with one line to the suite's own: that of a pod. */
export type Pod = Awaited<ReturnType<typeof startPod>>;

/**
 * @param number Its own.
 * @param families Of its addresses, apart from loopback.
 * @param routed Whether it reaches more than the other end of its line.
 */
export async function startPod(
  number: number,
  families: readonly Family[],
  routed: Readonly<Partial<Record<Family, string>>> = {},
) {
  const [name, near, address] = [`pod${number}`, nearEnd(number), podAt(number)];
  const holder = spawn("unshare", ["--net", "sleep", "infinity"], { stdio: "ignore" });
  const inside = ["nsenter", "--target", `${holder.pid}`, "--net"];
  const own = await runWell("readlink", ["/proc/self/ns/net"]);
  await until("a namespace of its own", async () => {
    const its = await runWell("readlink", [`/proc/${holder.pid}/ns/net`]);
    return its !== own;
  });
  await ip(`link add ${name} type veth peer name eth0 netns ${holder.pid}`);
  await ip(`link set ${name} up`);
  await ip("link set lo up", inside);
  await ip("link set eth0 up", inside);
  for (const family of families) {
    const flags = family === "v6" ? " nodad" : "";
    const bits = family === "v6" ? 64 : 24;
    await ip(`addr add ${near[family]}/${bits} dev ${name}${flags}`);
    await ip(`addr add ${address[family]}/${bits} dev eth0${flags}`, inside);
    const to = routed[family];
    if (to) await ip(`route add ${to} via ${near[family]}`, inside);
  }
  return {
    /** The words before a command that runs in it. */
    inside,
    address,
    // Its line goes with it.
    end: () => void holder.kill("SIGKILL"),
  };
}

export const saidBy = ({ exitCode, stdout, stderr }: Ended): string =>
  `ended with ${exitCode}: ${`${stdout}${stderr}`.trim().split("\n").slice(-3).join(" / ")}`;
