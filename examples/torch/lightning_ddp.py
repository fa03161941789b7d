"""Training with PyTorch Lightning on CPUs over Tutti.

    pip install pytorch-lightning
    python examples/torch/lightning_ddp.py --devices 4

Lightning starts the other processes. Only `process_group_backend` differs from other backends."""

import argparse
import logging

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch, _):
        loss = nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Report(pl.Callback):
    def on_train_epoch_end(self, trainer, model):
        loss = trainer.callback_metrics["loss"].item()
        if trainer.is_global_zero:
            print(f"epoch {trainer.current_epoch + 1}: loss {loss:.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--devices", type=int, default=2)
    args = parser.parse_args()

    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    pl.seed_everything(1)
    x = torch.randn(256, 16)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).tanh()), batch_size=8)
    trainer = pl.Trainer(accelerator="cpu", devices=args.devices, max_epochs=args.epochs,
                         strategy=DDPStrategy(process_group_backend=args.backend),
                         callbacks=[Report()], logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), data)
    if trainer.is_global_zero:
        print(f"{dist.get_world_size()} ranks, backend {dist.get_backend()}")


if __name__ == "__main__":
    main()
