import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import type { BucketPlace } from "../../../src/node/stores/store-place.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { type Child, startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";

/** A real S3-compatible service over TLS, with one bucket in a folder. */
export interface Gateway {
  readonly place: BucketPlace;
  readonly origin: string;
  /** PEM, and the file that holds it. */
  readonly ca: string;
  readonly rootsFile: string;
  readonly port: number;
  /** Ends it, and starts it again five seconds later with all that it had. */
  readonly restart: () => Promise<void>;
  readonly end: () => Promise<number>;
}

export const bucket = "rampart-store";
export const credential = {
  accessKeyId: "interop",
  secretAccessKey: "secret/of+the+interop/suite",
  sessionToken: undefined,
};

/** Starts Versity's gateway on the folder, and waits until it answers. */
export async function startGateway(program: string, folder: string): Promise<Gateway> {
  const { key, ca } = await createTlsIdentity();
  const [keyFile, rootsFile] = [join(folder, "gateway.key"), join(folder, "gateway.pem")];
  await writeFile(keyFile, key);
  await writeFile(rootsFile, ca);
  const [data, sidecar] = [join(folder, "data"), join(folder, "sidecar")];
  for (const each of [join(data, bucket), sidecar]) await mkdir(each, { recursive: true });
  const [port = 0] = await freePorts(1);
  const serving = ["--port", `127.0.0.1:${port}`, "--cert", rootsFile, "--key", keyFile];
  const keeping = ["posix", "--sidecar", sidecar, data];
  const start = (): Child =>
    startChild(program, [...serving, "--keep-alive", "--quiet", ...keeping], {
      logFile: join(folder, "gateway.log"),
      environment: {
        ROOT_ACCESS_KEY: credential.accessKeyId,
        ROOT_SECRET_KEY: credential.secretAccessKey,
      },
    });
  const origin = `https://127.0.0.1:${port}`;
  const place: BucketPlace = {
    kind: "s3",
    bucket,
    prefix: "mesh-1/",
    region: "us-east-1",
    rootsFile,
    url: `${origin}/${bucket}`,
    credentials: async () => credential,
  };
  const space = new BucketSpace(place, NodeFetch.trusting(ca), () => new Date());
  const untilItAnswers = (): Promise<void> =>
    until("the gateway answers", () =>
      space.list("now").then(
        () => true,
        () => false,
      ),
    );
  let child = start();
  await untilItAnswers();
  return {
    place,
    origin,
    ca,
    rootsFile,
    port,
    restart: async () => {
      await child.end();
      await sleep(5000);
      child = start();
      await untilItAnswers();
    },
    end: () => child.end(),
  };
}
