#!/usr/bin/env python3
# labels: short
"""Processes that share no storage, each with a folder of its own: the chief writes and serves the checkpoints."""
import pathlib
import re
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import PS, TSAN, WORKER  # noqa: E402
from hand_test import HandCase  # noqa: E402

KEYS = {"data.synthetic_train_rows": 4000, "training.epochs": 6, "checkpoint.every_steps": 20,
        "checkpoint.every_seconds": 0,
        "timeouts.worker_rejoin_s": 100}  # a worker that came when all is over would see no directory that shows it


class StoreTest(HandCase):
    def apart(self, ps, workers, keys=KEYS):
        """As cluster(), each process with a DIR of its own; worker 0's is self.out. Returns also how to start ps I."""
        hosts = self.addresses(ps + workers)
        of = [f"--ps_hosts={','.join(hosts[:ps])}", f"--worker_hosts={','.join(hosts[ps:])}"]

        def start_ps(i):
            return self.start(PS, f"ps-{i}", "--job_name=ps", f"--task_index={i}", *of, keys=keys, out=self.dir_of(i))
        return ([start_ps(i) for i in range(ps)],
                [self.start(WORKER, f"worker-{i}", "--job_name=worker", f"--task_index={i}", *of, keys=keys,
                            out=self.tmp / f"worker-{i}" if i else self.out) for i in range(workers)], start_ps)

    def dir_of(self, ps):
        return self.tmp / f"ps-dir-{ps}"

    def cuts(self):
        return sorted(int(p.parent.name[4:]) for p in (self.out / "checkpoints").glob("cut-*/manifest.gw"))

    def until_cut(self, cut, chief):
        self.until(lambda: f"cut {cut}:\n{chief.log()}", lambda: (c := self.cuts()) and c[-1] >= cut)

    def nothing_stays(self, ps):
        """The files that passed through the ps's directories are gone, and the chief's token."""
        for i in range(ps):
            self.assertEqual([str(p) for p in self.dir_of(i).rglob("*") if p.is_file()], [])
        self.assertEqual(list((self.out / "checkpoints").glob(".storage*")), [])

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_it_learns_the_same_and_the_chief_has_every_file(self):
        ps, workers, _ = self.apart(2, 2)
        s = self.all_done(*workers, *ps)
        self.assertEqual(s["digest"], self.undisturbed(keys=KEYS))
        self.assertIn("the chief writes the checkpoints", ps[0].log())
        self.nothing_stays(2)
        resumed = self.train("--ps=3", keys={**KEYS, "training.epochs": 7})  # on the chief's host alone
        self.assertEqual(resumed.summary()["digest"], self.undisturbed(keys={**KEYS, "training.epochs": 7}))

    def test_a_ps_that_comes_back_on_an_empty_host_gets_its_part_from_the_chief(self):
        ps, workers, start_ps = self.apart(2, 2)
        self.until_cut(2, workers[0])
        ps[1].process.send_signal(signal.SIGKILL)
        ps[1].wait(-signal.SIGKILL)
        shutil.rmtree(self.dir_of(1), ignore_errors=True)
        ps[1] = start_ps(1)
        s = self.all_done(*workers, *ps)
        self.assertEqual(s["digest"], self.undisturbed(keys=KEYS))
        self.assertIn("resuming from checkpoint", ps[1].log())
        self.nothing_stays(2)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_stopped_and_started_again_with_another_number_of_empty_ps(self):
        ps, workers, _ = self.apart(2, 2)
        self.until_cut(1, workers[0])
        for p in (*ps, *workers):
            p.process.send_signal(signal.SIGTERM)
        for p in (*ps, *workers):
            p.wait(143)
        for i in range(2):
            shutil.rmtree(self.dir_of(i), ignore_errors=True)
        ps, workers, _ = self.apart(3, 1)
        self.assertEqual(self.all_done(*workers, *ps)["digest"], self.undisturbed(keys=KEYS))
        self.nothing_stays(3)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_damaged_checkpoints_keep_their_numbers(self):
        keys = {**KEYS, "checkpoint.keep": 20}
        ps, workers, _ = self.apart(1, 1, keys)
        want = self.all_done(*workers, *ps)["digest"]
        cuts = self.cuts()
        for cut in cuts[-3:]:
            shard = self.out / f"checkpoints/cut-{cut:010}/shard-0.gw"
            damaged = bytearray(shard.read_bytes())
            damaged[len(damaged) // 2] ^= 4
            shard.write_bytes(damaged)
        ps, workers, _ = self.apart(1, 1, {**keys, "checkpoint.every_steps": 0})
        self.assertEqual(self.all_done(*workers, *ps)["digest"], want)
        self.assertNotIn(" failed: ", workers[0].log())
        self.assertEqual([cut for cut in self.cuts() if cut > cuts[-1]], [cuts[-1] + 1])

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_checkpoint_that_a_ps_cannot_read_is_passed_over_and_said_so(self):
        ps, workers, _, _ = self.cluster(1, 1, keys=KEYS)
        self.until_cut(2, workers[0])
        for p in (*ps, *workers):
            p.process.send_signal(signal.SIGTERM)
            p.wait(143)
        cuts = self.cuts()
        me = ["--task_index=0", *self.hosts]  # the chief reads all of it, and only the ps cannot
        ps = self.start(PS, "ps", "--job_name=ps", f"--fault=eio:{cuts[-1]}", *me, keys=KEYS)
        chief = self.start(WORKER, "chief", "--job_name=worker", *me, keys=KEYS)
        s = self.all_done(chief, ps)
        self.assertRegex(chief.log(), f"checkpoint {cuts[-1]} cannot be used: .*/cut-{cuts[-1]:010}/.*: Input/output error; "
                                      "trying the one before it")
        self.assertIn(f"resuming from checkpoint {cuts[-2]} ", chief.log())
        self.assertEqual(s["digest"], self.undisturbed(keys=KEYS))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_chief_is_killed_while_it_keeps(self):
        ps, workers, _ = self.apart(2, 2)
        hosts = workers[0].process.args
        for kills in range(3):
            self.until_cut(kills + 1, workers[0])
            workers[0].process.send_signal(signal.SIGKILL)
            workers[0].wait(-signal.SIGKILL)
            workers[0] = self.again(hosts)
        s = self.all_done(*workers, *ps)
        self.assertEqual(s["digest"], self.undisturbed(keys=KEYS))

    def again(self, command):
        from cluster import Process
        return Process(self, command, "worker-0")

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_shared_and_not_the_chiefs_directory_ends_the_job_before_the_first_checkpoint_and_says_what_to_do(self):
        ps, workers, _ = self.apart(2, 1, {**KEYS, "checkpoint.store": "shared"})
        for p in workers + ps:
            self.assertRegex(p.wait(1).last_line(), f"ps ([01]) does not see the chief's checkpoints in {self.tmp}/ps-dir-\\1/"
                             "checkpoints, although checkpoint.store is shared: mount the shared directory there, or leave "
                             "out checkpoint.store")
        s = self.summary()
        self.assertEqual((s["status"], s["exit_code"]), ("failed", 1))
        self.assertIn("mount the shared directory there", s["error"])
        self.assertEqual(self.cuts(), [])
        self.nothing_stays(2)

    def mirror(self, ps):
        """Copies DIR/checkpoints as rsync does, with the file by which a ps finds the chief's storage."""
        seen = self.dir_of(ps) / "checkpoints"
        shutil.copytree(self.out / "checkpoints", seen)
        self.assertEqual(len(list(seen.glob(".storage-*"))), 1)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_copy_of_the_chiefs_checkpoints_is_not_taken_for_its_storage(self):
        keys = {**KEYS, "training.epochs": 40}  # it is not done before the ps is killed
        ps, workers, start_ps = self.apart(1, 1, keys)
        self.until_cut(2, workers[0])
        workers[0].process.send_signal(signal.SIGSTOP)  # nothing changes while it is copied
        self.mirror(0)
        before = self.cuts()
        workers[0].process.send_signal(signal.SIGCONT)
        self.until_cut(before[-1] + 2, workers[0])
        ps[0].process.send_signal(signal.SIGKILL)
        ps[0].wait(-signal.SIGKILL)
        ps[0] = start_ps(0)
        s = self.all_done(*workers, *ps)
        self.assertEqual(s["digest"], self.undisturbed(keys=keys))
        self.assertNotIn(" failed: ", workers[0].log())
        self.assertNotIn("cannot be used", workers[0].log())

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_chief_publishes_no_checkpoint_whose_files_it_does_not_see(self):
        keys = {**KEYS, "training.epochs": 1000, "checkpoint.store": "shared"}
        self.dir_of(0).mkdir()
        (self.dir_of(0) / "checkpoints").symlink_to(self.out / "checkpoints")
        (ps,), (chief,), _ = self.apart(1, 1, keys)
        self.until_cut(1, chief)
        ps.process.send_signal(signal.SIGSTOP)  # it loses the common storage
        chief.process.send_signal(signal.SIGSTOP)  # nothing changes while it is copied
        (self.dir_of(0) / "checkpoints").unlink()
        self.mirror(0)
        chief.process.send_signal(signal.SIGCONT)
        ps.process.send_signal(signal.SIGCONT)
        failed = re.compile(rf"checkpoint (\d+) at step \d+ failed: ps 0: {self.out}/checkpoints/cut-\d+/shard-0.gw: corrupt: "
                            "it is missing")
        self.until(chief.log, lambda: failed.search(chief.log()))
        for p in chief, ps:
            p.process.send_signal(signal.SIGTERM)
        chief.wait(143)
        ps.wait(143)
        self.assertTrue(set(self.cuts()).isdisjoint(map(int, failed.findall(chief.log()))))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_on_one_host_it_can_be_asked_for(self):
        keys = {**KEYS, "checkpoint.store": "chief"}
        job = self.train(keys=keys)
        self.assertEqual(job.summary()["digest"], self.undisturbed(keys=KEYS))
        self.assertIn("(checkpoint.store)", job.log("ps-0"))
        self.assertEqual([str(p) for p in (self.out / "spool").rglob("*") if p.is_file()], [])

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_where_storage_is_shared_nothing_is_sent(self):
        job = self.train(keys=KEYS)
        self.assertNotIn("the chief writes the checkpoints", job.log("ps-0"))
        self.assertFalse((self.out / "spool").exists())
        self.assertEqual(list((self.out / "checkpoints").glob(".storage*")), [])


if __name__ == "__main__":
    unittest.main()
