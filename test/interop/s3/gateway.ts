import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createBucketClient } from "../../../src/node/stores/bucket-client.ts";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import type { BucketPlace } from "../../../src/node/stores/store-place.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { type Child, startChild } from "../../testkit/programs/child-process.ts";
import { succeeds, until } from "../../testkit/time/until.ts";
import { fromGoProxy, type Software } from "../software.ts";

/** A real S3-compatible service over TLS, with one bucket in a folder. */
export type Gateway = Awaited<ReturnType<typeof serveBucket>>;

export const versityGateway = (): Promise<Software> =>
  fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");

export const bucket = "rampart-store";
export const credential = {
  accessKeyId: "interop",
  secretAccessKey: "secret/of+the+interop/suite",
  sessionToken: undefined,
};

/** The files of a service's TLS, and its port. */
interface Serving {
  readonly port: number;
  readonly keyFile: string;
  readonly certificateFile: string;
}

/** Starts Versity's gateway on the folder, and waits until it answers. */
export async function startGateway(program: string, folder: string): Promise<Gateway> {
  const [data, sidecar] = [join(folder, "data"), join(folder, "sidecar")];
  for (const each of [join(data, bucket), sidecar]) await mkdir(each, { recursive: true });
  const keeping = ["posix", "--sidecar", sidecar, data];
  return serveBucket(folder, ({ port, keyFile, certificateFile }) => {
    const serving = ["--port", `127.0.0.1:${port}`, "--cert", certificateFile, "--key", keyFile];
    return startChild(program, [...serving, "--keep-alive", "--quiet", ...keeping], {
      logFile: join(folder, "gateway.log"),
      environment: {
        ROOT_ACCESS_KEY: credential.accessKeyId,
        ROOT_SECRET_KEY: credential.secretAccessKey,
      },
    });
  });
}

/** Starts SeaweedFS with all its parts in one process, and waits until it has the bucket. */
export async function startSeaweed(program: string, folder: string): Promise<Gateway> {
  const [data, identities] = [join(folder, "data"), join(folder, "identities.json")];
  await mkdir(data, { recursive: true });
  const { accessKeyId: accessKey, secretAccessKey: secretKey } = credential;
  const administrator = { name: "rampart", credentials: [{ accessKey, secretKey }] };
  const rights = { ...administrator, actions: ["Admin", "Read", "Write", "List"] };
  await writeFile(identities, JSON.stringify({ identities: [rights] }));
  const parts = ["master", "volume", "filer", "s3"];
  const ports = await freePorts(2 * parts.length);
  const places = parts.flatMap((part, i) => [
    `-${part}.port=${ports[2 * i]}`,
    `-${part}.port.grpc=${ports[2 * i + 1]}`,
  ]);
  const none = ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"];
  const gateway = await serveBucket(folder, ({ port, keyFile, certificateFile }) =>
    startChild(
      program,
      [
        ...[
          "server",
          "-s3",
          "-ip=127.0.0.1",
          `-dir=${data}`,
          "-volume.max=100",
          ...places,
          ...none,
        ],
        ...[`-s3.port.https=${port}`, `-s3.key.file=${keyFile}`],
        ...[`-s3.cert.file=${certificateFile}`, `-s3.config=${identities}`],
      ],
      { logFile: join(folder, "seaweed.log") },
    ),
  );
  // The first write makes volumes, which takes seconds.
  const space = new BucketSpace(gateway.place, NodeFetch.trusting(gateway.ca), () => new Date());
  await until("a volume takes objects", () => succeeds(space.prove()));
  return { ...gateway, writers: 3 };
}

async function serveBucket(folder: string, start: (serving: Serving) => Child) {
  const { key, ca } = await createTlsIdentity();
  const [keyFile, rootsFile] = [join(folder, "gateway.key"), join(folder, "gateway.pem")];
  await writeFile(keyFile, key);
  await writeFile(rootsFile, ca);
  const [port = 0] = await freePorts(1);
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
  const send = createBucketClient(place, NodeFetch.trusting(ca), () => new Date());
  const space = new BucketSpace(place, NodeFetch.trusting(ca), () => new Date());
  const child = start({ port, keyFile, certificateFile: rootsFile });
  await until("the service has the bucket", async () => {
    if (await succeeds(space.list("now"))) return true;
    await succeeds(send({ method: "PUT", name: "" }));
    return false;
  });
  return {
    place,
    origin,
    /** PEM, and the file that holds it. */
    ca,
    rootsFile,
    port,
    /** As many write one name at once: SeaweedFS has each wait for a second. */
    writers: 8,
    end: () => child.end(),
  };
}
