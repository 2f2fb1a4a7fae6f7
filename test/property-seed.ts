/** Property tests draw from one seed, so that a run can be repeated. `CORDUM_TEST_SEED` sets another; the nightly build does. */
import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env.CORDUM_TEST_SEED ?? 1) });
