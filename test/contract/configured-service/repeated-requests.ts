import { expect, test } from "vitest";
import type { ConfigurableService } from "./configurable-service.ts";
import { forPod, productRequests, signer } from "./product-requests.ts";

/** The requests that a signer of a cluster repeats, to whichever process answers, and after a restart. */
export function describeRepeatedRequests(open: () => Promise<ConfigurableService>): void {
  const { start, ask } = productRequests(open);

  test("a request that a signer repeats gets the same certificate", async () => {
    const serialFor = async (RequestUid: string) => {
      const { outcome, serialNumber } =
        (await ask({ by: signer, metadata: { ...forPod, RequestUid } })) ?? {};
      return outcome === "issued" ? serialNumber : `${outcome}`;
    };
    await start();
    const first = await serialFor("uid-1");
    const others = [await serialFor("uid-2"), await serialFor("uid-1"), await serialFor("uid-1")];
    await start();
    others.push(await serialFor("uid-1"));
    expect(new Set([first, ...others])).toEqual(new Set([first, others[0]]));
    expect(others).toEqual([expect.not.stringContaining(`${first}`), first, first, first]);
  });
}
