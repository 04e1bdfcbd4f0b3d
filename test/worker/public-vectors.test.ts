import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";
import { holdToLimbo, holdToWycheproof } from "../contract/public-vectors.ts";

holdToWycheproof([webCryptoProvider]);
holdToLimbo();
