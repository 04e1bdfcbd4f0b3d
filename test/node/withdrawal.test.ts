import { join } from "node:path";
import { FileStore } from "../../src/node/files/file-store.ts";
import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import { describeWithdrawal } from "../contract/withdrawal/withdrawal.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

describeWithdrawal(async () => {
  const folder = await temporaryFolder();
  return {
    own: await FileStore.open(join(folder, "own")),
    signer: await FileStore.open(join(folder, "signer")),
  };
}, nodeCryptoProvider);
