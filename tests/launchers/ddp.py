# ddp.py -- a script of PyTorch DDP as torchrun's users have it. It knows nothing of Trireme. Ranks on CPU cores meet by
# the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) over Gloo and train a small model on their part of the
# data. Rank 0 prints losses and a sum over the weights; equal lines mean equal bits.
#   --fail RANK       that rank raises an error in epoch 1, in the first start of the workers
#   --order FILE      every rank appends its number, so that a test sees who trained
import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", type=int, default=-1)
    parser.add_argument("--order")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if options.order:
        with open(options.order, "a") as f:
            f.write(f"{rank} of {dist.get_world_size()}\n")

    inputs = torch.randn(256, 16)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin())
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first_start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.9e}", flush=True)
        if epoch == 1 and rank == options.fail and first_start:
            raise ValueError(f"rank {rank} was told to fail")
    if rank == 0:
        print("weights %.9e" % sum(p.double().sum().item() for p in model.parameters()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Without a launcher, too, PyTorch 2.15 aborts in a few of a hundred ends of the interpreter, after all has been done.
    sys.stdout.flush()
    os._exit(0)
